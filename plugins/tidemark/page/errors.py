"""What a page can meet beside what it asks for: Airflow's api-server is no worker."""

from tidemark.errors import InvalidSettings, Unreachable


class ConnectionNotOnServer(InvalidSettings):
    """Airflow's api-server does not know a connection, or may not."""

    conn_id: str
    has_teams: bool = False

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


class AnswerTooLate(
    Unreachable,
    text="no answer within {seconds:g} s: the page has given up. Load it again",
):
    seconds: float


class HelperFailed(
    Unreachable,
    text="the look failed ({cause}): the log of Airflow's api-server says more",
):
    cause: str
