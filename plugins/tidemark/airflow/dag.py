"""Factories: a pipeline's tasks as a DAG of their own, or as a group in a DAG you already have.

    open (setup) -> drain[1..N] -> close (ALL_DONE) -> reset (ONE_FAILED)
                                   [close, reset] -> verdict (NONE_FAILED): red stays red
                                   verdict -> end (teardown, ALL_DONE): red unless the run is done

As open is a setup, clearing any task clears it too: the work gets a new epoch. If open fails
nothing else runs: nothing was begun. `end` bounds the setup: a host's tasks behind the group are
none of its scope, so clearing one clears no open, and an `all_done` task runs after a refusal too.
Airflow would then judge a host by such tasks alone; `end` counts beside them.
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, TaskGroup, XComArg

from tidemark.airflow.compat import AssetOrTimeSchedule, CronTriggerTimetable
from tidemark.airflow.doorbell import HOURLY, Doorbell
from tidemark.airflow.forms import pipeline_doc, run_params
from tidemark.airflow.operators import (
    CloseOperator,
    DrainOperator,
    OpenOperator,
    ResetOperator,
    VerdictOperator,
)
from tidemark.airflow.step import DRAIN_TIMEOUT, RETRIES, RUN_WAIT, Params, dag_of, per_task
from tidemark.settings.fingerprint import file_fingerprint
from tidemark.settings.pipeline import Pipeline

LOOK = timedelta(seconds=10)


def pipeline_dag(
    path: str | Path,
    *,
    schedule: Any = None,
    drain_timeout: timedelta = DRAIN_TIMEOUT,
    spark_conf: dict[str, str] | None = None,
    drain_kwargs: Params | None = None,
    step_kwargs: Params | None = None,
    **dag_kwargs: Any,
) -> DAG:
    """The DAG of a pipeline file; dag_kwargs are Airflow's own.

    dag_id is the region's name by default; params stand beside those of the form. drain_kwargs
    are for the members' tasks and step_kwargs for the others: pool, queue, executor,
    executor_config, retries and their like.

    Raises:
        InvalidSettings: the file is wrong, a param has the name of one of the form, or an argument
            of a task is not for you to set; Airflow shows it as the DAG's import error.
    """
    pipeline = Pipeline.load(path)
    drain = _drain(spark_conf, drain_timeout, drain_kwargs)
    dag_id = dag_kwargs.pop("dag_id", pipeline.region)
    with dag_of(dag_id, pipeline, run_params(), schedule=schedule, **dag_kwargs) as dag:
        dag.doc_md = dag.doc_md or pipeline_doc(pipeline)
        _wire(str(path), pipeline, drain, per_task("step_kwargs", step_kwargs))
    return dag


def on_data(
    path: str | Path, *, floor: str = HOURLY, look_every: timedelta = LOOK
) -> AssetOrTimeSchedule:
    """A schedule that starts a run when records wait for the pipeline, and at the floor's times.

    Airflow's triggerer looks; it must run, and reach Kafka and the warehouse. `floor` is a cron
    line in UTC: it starts runs where the doorbell is silent, as after a run that failed.

        dag = pipeline_dag(path, schedule=on_data(path))

    Raises:
        InvalidSettings: the file is wrong; Airflow shows it as the DAG's import error.
    """
    pipeline = Pipeline.load(path)
    seen = pipeline.for_readers
    bell = Doorbell(
        region=pipeline.region,
        topics=pipeline.kafka.topics,
        kafka=seen.kafka.connection,
        warehouse=seen.warehouse,
        seconds=look_every.total_seconds(),
        floor=floor,
        fingerprint=file_fingerprint(pipeline),
        group=pipeline.group,
    )
    records = Asset(
        name=f"{pipeline.region}/records",
        uri=f"tidemark://{pipeline.kafka.connection}/{pipeline.region}/records",
        group="tidemark",
        watchers=[AssetWatcher(name=f"{pipeline.region}/doorbell", trigger=bell)],
    )
    return AssetOrTimeSchedule(
        timetable=CronTriggerTimetable(floor, timezone="UTC"), assets=[records]
    )


class PipelineTaskGroup(TaskGroup):  # type: ignore[misc]
    """The tasks of a run, as a group."""

    @property
    def result(self) -> XComArg:
        """What the run did, for a task of your own: checkpoint (`seq`), rows, offsets and counts.

        report(pipeline_task_group(path).result)
        """
        return XComArg(self.get_child_by_label("close"))


def pipeline_task_group(
    path: str | Path,
    *,
    group_id: str | None = None,
    drain_timeout: timedelta = DRAIN_TIMEOUT,
    spark_conf: dict[str, str] | None = None,
    drain_kwargs: Params | None = None,
    step_kwargs: Params | None = None,
    **group_kwargs: Any,
) -> PipelineTaskGroup:
    """The same tasks as a group of the DAG in whose `with` this is called.

    Its `result` is what the run did. The group's last task is red when the run is not done, so
    what comes after it waits for rows that are really there. Give that DAG max_active_runs=1 and,
    if people start it by hand, params=run_params(). drain_kwargs and step_kwargs are as those of
    `pipeline_dag`.

    Raises:
        InvalidSettings: the file is wrong, or an argument of a task is not for you to set;
            Airflow shows it as the DAG's import error.
    """
    pipeline = Pipeline.load(path)
    drain = _drain(spark_conf, drain_timeout, drain_kwargs)
    defaults = RETRIES | group_kwargs.pop("default_args", {})
    with PipelineTaskGroup(
        group_id or pipeline.region,
        default_args=defaults,
        tooltip=f"Kafka to {pipeline.into}, exactly once",
        **group_kwargs,
    ) as entered:
        group: PipelineTaskGroup = entered
        _wire(str(path), pipeline, drain, per_task("step_kwargs", step_kwargs))
    return group


def _drain(
    conf: dict[str, str] | None, timeout: timedelta, kwargs: Params | None
) -> dict[str, Any]:
    return {"conf": conf, "execution_timeout": timeout, **per_task("drain_kwargs", kwargs)}


def _wire(path: str, pipeline: Pipeline, of_drain: Params, of_steps: Params) -> None:
    wait = max(RUN_WAIT, of_drain["execution_timeout"])
    opened = OpenOperator(task_id="open", pipeline=path, wait=wait, **of_steps)
    drain = DrainOperator.partial(task_id="drain", pipeline=path, **of_drain)
    drained = drain.expand(member=list(range(1, pipeline.members + 1)))
    closed = CloseOperator(task_id="close", pipeline=path, **of_steps)
    reset = ResetOperator(task_id="reset", pipeline=path, **of_steps)
    verdict = VerdictOperator(task_id="verdict", pipeline=path, **of_steps)
    end = VerdictOperator(task_id="end", pipeline=path, **of_steps).as_bound_of(opened)
    opened >> drained >> closed >> reset
    [closed, reset] >> verdict >> end
