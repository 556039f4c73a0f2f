"""What a page can meet beside what it asks for: Airflow's api-server is no worker."""

from tidemark.errors import InvalidSettings, Refused


class ConnectionNotOnServer(InvalidSettings):
    """Airflow's api-server does not know a connection, or may not."""

    conn_id: str

    def __str__(self) -> str:
        return (
            f"connection {self.conn_id!r} is not known to Airflow's api-server: create it in"
            f" Airflow, or set AIRFLOW_CONN_{self.conn_id.upper()} there as it is set for the"
            " workers"
        )


class DryRunTooLong(Refused):
    """A dry run takes longer than a page waits."""

    region: str
    to: str
    seconds: int

    def __str__(self) -> str:
        return (
            f"the dry run takes longer than {self.seconds} s: Kafka's records are counted. Run the"
            f" reset DAG without Apply, or: tidemark reset {self.region} --to {self.to}"
        )
