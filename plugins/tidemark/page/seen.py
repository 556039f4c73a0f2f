"""A region as Airflow shows it to a user."""

from dataclasses import dataclass, field
from datetime import datetime

from tidemark.settings.described import Described, Role, ledger_run_id
from tidemark.settings.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class AirflowRun:
    """A DAG run."""

    dag_id: str
    run_id: str
    state: str
    started_at: datetime | None
    ended_at: datetime | None
    error: tuple[str, str] | None = None
    """Of a failed one: the task that failed first, and its error's code."""

    @property
    def ledger_id(self) -> str:
        """The run id that its tasks give the ledger."""
        return ledger_run_id(self.dag_id, self.run_id)


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A DAG file that Airflow can't read."""

    file: str
    error: str | None
    """None: the user may not see it."""


@dataclass(slots=True)
class SeenRegion:
    """A region with its DAGs; only those that the user may read."""

    described: Described
    dags: dict[Role, str] = field(default_factory=dict)
    is_paused: bool = False
    """Whether the DAG that runs it is."""
    next_run_at: datetime | None = None
    schedule: str | None = None
    last_run: AirflowRun | None = None
    """The newest run of the DAG that runs it."""
    unread: UnreadFile | None = None
    """The file of one of its DAGs, if Airflow can't read it: what is known is of the last time."""

    @property
    def pipeline(self) -> Pipeline:
        """Its pipeline."""
        return self.described.pipeline

    @property
    def name(self) -> str:
        """The region's name."""
        return self.pipeline.region

    @property
    def dag_id(self) -> str:
        """By which its page is found: the DAG that runs it, or else one of the others."""
        return self.dags.get(Role.run) or next(iter(self.dags.values()))
