"""What a DAG file or its tasks can meet: names, and a Spark connection that can't be used."""

from pathlib import Path

from tidemark.errors import InvalidSettings, Refused


class ParamsOfForm(
    InvalidSettings,
    text="params: {names:list} of the form can't be replaced; give yours another name. Bounds for"
    " every run are in the pipeline file, under batch",
):
    names: tuple[str, ...]


class TaskKwargsRefused(
    InvalidSettings,
    text="{argument}: {names:list} can't be set; it takes {taken:list}",
):
    argument: str
    names: tuple[str, ...]
    taken: tuple[str, ...]


class TriggerRuleTaken(
    InvalidSettings,
    text="{operator} needs the trigger rule {rule}: leave trigger_rule out",
):
    operator: str
    rule: str


class AssetOfNoPeriods(
    InvalidSettings,
    text="region {region} tells of no periods: add `complete: {{every: hour}}`, or day, to {file}",
):
    """An asset of periods was asked for, and the pipeline file has none."""

    region: str
    file: Path


class AssetOfNoTarget(InvalidSettings):
    """An asset was asked for, and the region has no target of the name."""

    region: str
    targets: tuple[str, ...]

    def __str__(self) -> str:
        names = ", ".join(filter(None, self.targets)) or "one target without a name"
        return f"region {self.region} has the targets {names}: name one of them"


class BackfillOfRegion(
    Refused,
    text="region {region}: run {run_id} is a backfill. A run reads what Kafka holds, whatever its"
    " interval, so nothing was opened. To read records again, rewind the region: the reset DAG, or"
    " tidemark reset --to. Give the DAG allowed_run_types without backfill, as pipeline_dag does",
):
    region: str
    run_id: str


class ConnectionNotGiven(
    InvalidSettings,
    text="Airflow gives the triggerer no connection {conn_id!r} ({cause}): create it. If Airflow"
    " keeps connections by team, create one that belongs to no team",
):
    conn_id: str
    cause: str
    """The class of Airflow's error."""


class SubmitNotPrepared(
    InvalidSettings,
    text="spark-submit can't be prepared: {cause}. For a k8s:// master install"
    " apache-airflow-providers-cncf-kubernetes on the workers",
):
    cause: str


class DeployModeIsCluster(
    InvalidSettings,
    text="spark connection {conn_id!r} has deploy mode 'cluster': spark-submit would put the Kafka"
    " and Postgres passwords into its arguments, and the driver would outlive a killed task; use"
    " client mode",
):
    conn_id: str


class SecretAmongArguments(
    InvalidSettings,
    text="{key} is in the task's conf, which spark-submit shows in its arguments: make it the"
    " password of the spark connection {conn_id!r}",
):
    conn_id: str
    key: str


class WiredWrong(
    InvalidSettings,
    text="DAG {dag_id}: the tasks of {file} can't work: {fault}. Wire them as open >> drain >>"
    " close >> verdict.as_bound_of(open), all of them in one task group; or use"
    " pipeline_task_group, which does so",
):
    dag_id: str
    file: str
    fault: str


class SensorWantsNothing(
    InvalidSettings,
    text="RegionSensor {task_id}: give at_least, the seq of a checkpoint, or complete_at, a time",
):
    task_id: str


class SensorValueUnreadable(
    InvalidSettings, text="RegionSensor: {argument} is {given!r}, not {form}"
):
    argument: str
    given: str
    form: str


class ApproversWithoutApproval(
    InvalidSettings,
    text="reset_dag: approvers {approvers:list} are named without approval=True, so nobody would be"
    " asked",
):
    approvers: tuple[str, ...]


class ResetNotApproved(
    Refused,
    text="region {region}: no approval of this reset is known. Nothing was changed. Answer the task"
    " `approve` under Required Actions; to mark it a success is no answer",
):
    region: str
