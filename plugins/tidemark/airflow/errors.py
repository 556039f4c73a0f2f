"""What a DAG file or its tasks can meet: names, and a Spark connection that can't be used."""

from tidemark.errors import InvalidSettings


class ParamsOfForm(InvalidSettings):
    """Params of a DAG's author have the names of params of the form."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"params: {', '.join(self.names)} of the form can't be replaced; give yours another"
            " name. Bounds for every run are in the pipeline file, under batch"
        )


class TaskKwargsRefused(InvalidSettings):
    """A DAG's author gives tasks what Tidemark sets itself, or what no task has."""

    argument: str
    names: tuple[str, ...]
    taken: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.argument}: {', '.join(self.names)} can't be set; it takes"
            f" {', '.join(self.taken)}"
        )


class AssetOfNoTarget(InvalidSettings):
    """An asset was asked for, and the region has no target of the name."""

    region: str
    targets: tuple[str, ...]

    def __str__(self) -> str:
        names = ", ".join(filter(None, self.targets)) or "one target without a name"
        return f"region {self.region} has the targets {names}: name one of them"


class SubmitNotPrepared(InvalidSettings):
    """Airflow's hook does not prepare spark-submit for the connection's master."""

    cause: str

    def __str__(self) -> str:
        return (
            f"spark-submit can't be prepared: {self.cause}. For a k8s:// master install"
            " apache-airflow-providers-cncf-kubernetes on the workers"
        )


class DeployModeIsCluster(InvalidSettings):
    """A Spark connection lets the driver run elsewhere, with the passwords in its arguments."""

    conn_id: str

    def __str__(self) -> str:
        return (
            f"spark connection {self.conn_id!r} has deploy mode 'cluster': spark-submit would put"
            " the Kafka and Postgres passwords into its arguments, and the driver would outlive a"
            " killed task; use client mode"
        )


class SecretAmongArguments(InvalidSettings):
    """A task's conf has the secret of a cluster, which spark-submit shows in its arguments."""

    conn_id: str
    key: str

    def __str__(self) -> str:
        return (
            f"{self.key} is in the task's conf, which spark-submit shows in its arguments: make it"
            f" the password of the spark connection {self.conn_id!r}"
        )
