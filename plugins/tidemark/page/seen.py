"""A region as Airflow shows it to a user."""

from dataclasses import dataclass, field
from datetime import datetime

from tidemark.settings.described import Described, Role
from tidemark.settings.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class AirflowRun:
    """A DAG run."""

    dag_id: str
    run_id: str
    state: str
    started_at: datetime | None
    ended_at: datetime | None


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
