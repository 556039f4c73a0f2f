"""The tasks of one run: found in their DAG, and refused where they are wired so that it can't work.

A run's tasks have one pipeline file and stand in one task group, whose id the ledger knows the run
by. Airflow calls `prepare_template` of each task when it has read a DAG file, so a wrong wiring is
an import error of that file, not a red run at night.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from airflow.sdk import TriggerRule

from tidemark.airflow.errors import WiredWrong


class RunTask:
    """Mixed into each operator of a run."""

    step: ClassVar[Literal["open", "drain", "close", "reset", "verdict"]]
    """What the task does for its run."""
    pipeline: str
    """The pipeline file."""

    def prepare_template(self) -> None:
        """Refuse a wrong wiring.

        Raises:
            InvalidSettings: the tasks of this one's run can't work together.
        """
        refuse_wrong_wiring(self)


@dataclass(slots=True)
class RunTasks:
    """The tasks of one run, by what they do."""

    open: list[Any] = field(default_factory=list)
    drain: list[Any] = field(default_factory=list)
    close: list[Any] = field(default_factory=list)
    reset: list[Any] = field(default_factory=list)
    verdict: list[Any] = field(default_factory=list)

    @property
    def between(self) -> set[str]:
        """The ids of a host's own tasks that stand between the open and its bound."""
        [opened], [bound] = self.open, self.bounds
        inside: set[str] = opened.get_flat_relative_ids(upstream=False)
        inside &= bound.get_flat_relative_ids(upstream=True)
        ours = (self.drain, self.close, self.reset, self.verdict)
        return inside - {task.task_id for tasks in ours for task in tasks}

    @property
    def bounds(self) -> list[Any]:
        """The verdicts that are teardowns of the open."""
        ids = {one.task_id for one in self.open}
        return [one for one in self.verdict if one.is_teardown and ids & one.upstream_task_ids]


def tasks_of_run(task: Any) -> RunTasks:
    """The tasks that belong to the run of this one, itself among them."""
    found, place = RunTasks(), _place(task)
    for other in task.get_dag().tasks:
        kind = getattr(other, "operator_class", type(other))
        if issubclass(kind, RunTask) and _place(other) == place:
            getattr(found, kind.step).append(other)
    return found


def _place(task: Any) -> tuple[object, str]:
    given = task.partial_kwargs if hasattr(task, "partial_kwargs") else vars(task)
    return str(given.get("pipeline")), task.task_id.rpartition(".")[0]


def refuse_wrong_wiring(task: Any) -> None:
    """Return if the tasks of this one's run can open, drain, close and judge it.

    Raises:
        InvalidSettings: they can't; names the first fault.
    """
    for fault in _faults(tasks_of_run(task)):
        raise WiredWrong(dag_id=task.get_dag().dag_id, file=task.pipeline, fault=fault)


def _faults(run: RunTasks) -> Iterator[str]:
    yield from _not_one("OpenOperator", run.open)
    yield from _not_one("CloseOperator", run.close)
    yield from _not_one("VerdictOperator that bounds the open (as_bound_of)", run.bounds)
    if not run.drain:
        yield "it has no DrainOperator"
    [opened], [closed], [bound] = run.open, run.close, run.bounds
    chain = [(opened, drain) for drain in run.drain] + [(drain, closed) for drain in run.drain]
    for before, after in [*chain, *((closed, one) for one in run.verdict)]:
        if after.task_id not in before.get_flat_relative_ids(upstream=False):
            yield f"{after.task_id} does not come after {before.task_id}"
    for one in run.reset:
        if closed.task_id not in one.upstream_task_ids:
            yield f"{one.task_id} does not come right after {closed.task_id}"
    for one in (closed, bound):
        if one.trigger_rule != TriggerRule.ALL_DONE:
            yield f"the trigger rule of {one.task_id} is {one.trigger_rule!s}, not all_done"


def _not_one(kind: str, tasks: list[Any]) -> Iterator[str]:
    if not tasks:
        yield f"it has no {kind}"
    if len(tasks) > 1:
        yield f"it has more than one {kind}: {', '.join(one.task_id for one in tasks)}"
