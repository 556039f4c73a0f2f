"""The operators of a run. `pipeline_dag` and `pipeline_task_group` are made of them.

    opened = OpenOperator(task_id="open", pipeline=FILE)
    drained = DrainOperator.partial(task_id="drain", pipeline=FILE).expand(member=[1, 2])
    closed = CloseOperator(task_id="close", pipeline=FILE)
    verdict = VerdictOperator(task_id="verdict", pipeline=FILE).as_bound_of(opened)
    opened >> drained >> closed >> verdict

Each takes all arguments of Airflow's BaseOperator, too. A wrong wiring is an import error of the
DAG file.
"""

from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from airflow.sdk import Context, TriggerRule
from airflow.sdk.bases.xcom import BaseXCom

from tidemark.airflow._lineage import Lineaged, seen
from tidemark.airflow._wiring import RunTask
from tidemark.airflow.assets import outlets_of_close
from tidemark.airflow.drain import DrainOperator
from tidemark.airflow.results import Result, best_effort
from tidemark.airflow.step import RUN_WAIT, PipelineOperator, described
from tidemark.airflow.tasks import (
    close_run,
    judge_run,
    open_run,
    reset_failed_run,
)
from tidemark.settings.described import Role
from tidemark.settings.pipeline import Pipeline

__all__ = ["CloseOperator", "DrainOperator", "OpenOperator", "ResetOperator", "VerdictOperator"]


class OpenOperator(RunTask, PipelineOperator):
    """Open the DAG run's epoch, within the bounds of its form and with its overrides.

    While another run is at work in the region, it waits without a slot, for at most `wait`. It is
    the setup of the run: a task of the run that is cleared clears it too.
    """

    step = "open"

    def __init__(self, *, pipeline: str | Path, wait: timedelta = RUN_WAIT, **kwargs: Any) -> None:
        carried = described(Pipeline.load(pipeline), Role.run)
        super().__init__(pipeline=pipeline, doc_json=carried, **kwargs)
        self.wait = wait

    def execute(self, context: Context) -> Result | None:
        """Return the epoch with its target offsets; None if no other task of the run is to come.

        Raises:
            AirflowFailException: a backfill; a refusal; or drain was cleared without those behind.
            AirflowRescheduleException: another run is at work: look again later.
        """
        return open_run(self.pipeline, context, self.wait)


class CloseOperator(Lineaged, RunTask, PipelineOperator):
    """Close the run if the ledger says that it is done, and tell who waits for its targets.

    Its result has the checkpoint and the counts of the run. What the run has read and written goes
    to OpenLineage.
    """

    step = "close"
    own_rule = TriggerRule.ALL_DONE

    def __init__(self, *, pipeline: str | Path, outlets: Any = (), **kwargs: Any) -> None:
        own = outlets_of_close(Pipeline.load(pipeline))
        super().__init__(pipeline=pipeline, outlets=[*own, *outlets], **kwargs)

    def execute(self, context: Context) -> Result:
        """Close the run, keep its result as XCom, look up its lineage: it fails by neither.

        Where a task is mapped over the result, that can't run without: then Airflow pushes it.

        Raises:
            AirflowFailException: the run is not done.
        """
        ti, is_mapped = context["ti"], next(self.iter_mapped_dependants(), None) is not None
        closed = close_run(self.pipeline, context)
        ti.task.do_xcom_push = is_mapped
        if not is_mapped:
            with best_effort("the result, as XCom,"):
                ti.xcom_push(BaseXCom.XCOM_RETURN_KEY, closed)
        self.lineage = seen(self.pipeline, context, counts=True)
        return closed


class ResetOperator(RunTask, PipelineOperator):
    """Reset a run whose close failed: restore the merged checkpoint. Put it right behind close.

    Without it the next open does so.
    """

    step = "reset"
    own_rule = TriggerRule.ONE_FAILED

    def execute(self, context: Context) -> Result | None:
        """Return the report; None if a newer epoch holds the region, or the run is closed."""
        return reset_failed_run(self.pipeline, context)


class VerdictOperator(RunTask, PipelineOperator):
    """Fail unless the ledger says that the run is done, whatever its tasks have said before.

    What comes behind it waits for rows that are really there. `as_bound_of` makes it the end of
    the run.
    """

    step = "verdict"
    own_rule = TriggerRule.NONE_FAILED

    def as_bound_of(self, opened: OpenOperator) -> Self:
        """Make it the teardown of the open: it runs whatever happened, and then decides the colour.

        A run that is still open is reset. Tasks behind it are none of the run: clearing one clears
        no open.
        """
        self.as_teardown(setups=opened, on_failure_fail_dagrun=True)
        self.trigger_rule = TriggerRule.ALL_DONE  # a run that ended before its open is red too
        return self

    def execute(self, context: Context) -> None:
        """Return if the run is closed.

        Raises:
            AirflowFailException: it is not.
            AirflowSkipException: a task before the open skipped all of the run.
        """
        judge_run(self.pipeline, context)
