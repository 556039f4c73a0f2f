"""A region as Airflow shows it to a user."""

from dataclasses import dataclass, field
from datetime import datetime

from tidemark.settings.described import Described, Role, ledger_run_id
from tidemark.settings.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class AirflowRun:
    """A DAG run."""

    number: int
    """Airflow's own: a later run has a larger one, whichever its DAG."""
    dag_id: str
    run_id: str
    state: str
    started_at: datetime | None
    ended_at: datetime | None
    error: tuple[str, str] | None = None
    """Of a failed one: the task that failed first, and its error's code."""

    @property
    def ledger_id(self) -> str:
        """The run id that its tasks give the ledger; those of a group append the group's id."""
        return ledger_run_id(self.dag_id, self.run_id)

    def gave(self, ledger_id: str | None) -> bool:
        """Whether tasks of it have given the ledger this run id."""
        return ledger_id is not None and f"{ledger_id}/".startswith(f"{self.ledger_id}/")


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
    dags: dict[Role, tuple[str, ...]] = field(default_factory=dict)
    """By role; the one that ran last stands first."""
    all_dags: dict[Role, tuple[str, ...]] = field(default_factory=dict)
    """Those too that the user may not read: what is allowed is asked of these."""
    is_paused: bool = False
    """Whether all DAGs that run it are."""
    next_run_at: datetime | None = None
    schedule: str | None = None
    last_run: AirflowRun | None = None
    """The newest run of the DAGs that run it."""
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
        return (self.dags.get(Role.run) or next(iter(self.dags.values())))[0]

    @property
    def reset_dags(self) -> tuple[str, ...]:
        """A reset is tried by who may start one of them; without a form: one that runs it."""
        return self.all_dags.get(Role.reset) or self.running_dags

    @property
    def running_dags(self) -> tuple[str, ...]:
        """Those that run it; records are shown to who may read the logs of one of them."""
        return self.all_dags.get(Role.run) or (self.dag_id,)
