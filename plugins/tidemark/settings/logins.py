"""The sections `executors` and `readers` of a pipeline file: connections that may do less."""

from typing import Annotated

from pydantic import Field

from tidemark.settings.section import CONNECTION, Strict

ConnectionId = Annotated[str, Field(pattern=CONNECTION)]


class Logins(Strict):
    """Connections of logins that may do less than those of the drivers; none: the same."""

    kafka: ConnectionId | None = None
    """Airflow connection of type kafka, in the place of kafka.connection."""
    warehouse: ConnectionId | None = None
    """Airflow connection of type postgres, in the place of the target's: the same database."""
