"""What a page can meet beside what it asks for: Airflow's api-server is no worker."""

from tidemark.errors import InvalidSettings, Unreachable


class ConnectionNotOnServer(InvalidSettings):
    """Airflow's api-server does not know a connection, or may not."""

    conn_id: str
    has_teams: bool = False
    """Whether Airflow keeps connections by team."""

    def __str__(self) -> str:
        teams = (
            ". One that belongs to a team is never found: a page asks for no team. Give the"
            " pipeline's `readers` connections that belong to none"
        )
        return (
            f"connection {self.conn_id!r} is not known to Airflow's api-server: create it in"
            f" Airflow, or set AIRFLOW_CONN_{self.conn_id.upper()} there as it is set for the"
            f" workers{teams if self.has_teams else ''}"
        )


class AnswerTooLate(Unreachable):
    """Postgres and Kafka together took longer to answer than a page waits."""

    seconds: float

    def __str__(self) -> str:
        return f"no answer within {self.seconds:g} s: the page has given up. Load it again"


class HelperFailed(Unreachable):
    """The process that asks Postgres and Kafka for the page failed."""

    cause: str

    def __str__(self) -> str:
        return f"the look failed ({self.cause}): the log of Airflow's api-server says more"
