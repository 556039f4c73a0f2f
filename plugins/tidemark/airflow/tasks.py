"""What the tasks of a run do, open to verdict; only a running one imports clients.

No result of a task is ever read back: what was done stands in the ledger.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context, timezone

from tidemark.airflow import results
from tidemark.airflow._wiring import RunTasks, tasks_of_run
from tidemark.airflow.assets import (
    complete_assets,
    complete_event,
    published_event,
    rewound_event,
    send,
    send_nothing,
    send_of_targets,
)
from tidemark.airflow.compat import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSkipException,
)
from tidemark.airflow.credentials import resolve, resolved
from tidemark.airflow.errors import BackfillOfRegion
from tidemark.airflow.forms import BOUNDS, OVERRIDES, REWIND_OVERRIDES, who
from tidemark.airflow.results import as_airflow_failure, best_effort
from tidemark.errors import RunNotDone, Superseded, TidemarkError
from tidemark.model.plain import plain
from tidemark.model.plan import Bounds
from tidemark.settings.described import ledger_run_id
from tidemark.settings.errors import NameChanged
from tidemark.settings.pipeline import Pipeline

if TYPE_CHECKING:
    from tidemark.admin.reset import ResetReport
    from tidemark.ledger.actions import Order
    from tidemark.protocol.close import Closed
    from tidemark.protocol.reset import Approved
    from tidemark.settings.connections import Connection


log = logging.getLogger(__name__)


OVER = {"success", "failed", "skipped", "upstream_failed", "removed"}
"""States of tasks that will not run, unless somebody clears them."""

LOOK_AGAIN = timedelta(seconds=30)
"""Between two looks whether the run that is at work has ended."""


def open_run(path: str, context: Context, wait: timedelta) -> results.Result | None:
    """Open the epoch of the DAG run; only if drain, close and verdict are to come."""
    from tidemark.runs import open as operation
    from tidemark.runs.refusals import refusal_kept

    pipeline = Pipeline.load(path)
    params, run_id = context["params"], _run_id(context)
    with as_airflow_failure():
        _refuse_backfill(context, pipeline)
    if missing := _missing(context):
        _say_nothing_opened(run_id, missing)
        return None
    kept = refusal_kept(pipeline, run_id, lambda: resolved(pipeline.warehouse))
    with as_airflow_failure(), kept:
        connections = resolve(pipeline)
    with as_airflow_failure():
        try:
            opened = operation.open_run(
                pipeline,
                connections,
                run_id=run_id,
                bounds=_bounds(pipeline, params),
                overrides=_overrides(params),
                is_polite=True,
                who=who(context),
            )
        except operation.MET as met:
            _wait(context, met, wait)
            raise
    _tell(results.open_lines(pipeline.region, run_id, opened))
    result: results.Result = plain(opened)
    return result


def _refuse_backfill(context: Context, pipeline: Pipeline) -> None:
    """A run reads what Kafka holds, and a backfill is many at once for intervals of the past."""
    if context["dag_run"].run_type == "backfill":
        raise BackfillOfRegion(region=pipeline.region, run_id=_run_id(context))


def _say_nothing_opened(run_id: str, missing: Sequence[str]) -> None:
    """Say so; whatever comes finds the run as the ledger knows it.

    Raises:
        AirflowFailException: drain would work in an epoch that is over.
    """
    if "drain" not in missing:
        raise AirflowFailException(
            f"run {run_id}: drain was cleared without {' and '.join(missing)}. Nothing was opened."
            " Clear drain together with all tasks that follow"
        )
    log.info(
        "run %s: nothing was opened, as %s will not run. To let the run work again, clear drain"
        " together with all tasks that follow",
        run_id,
        " and ".join(missing),
    )


def _wait(context: Context, met: TidemarkError, wait: timedelta) -> None:
    """Leave the slot and look again later; return where this task has waited long enough."""
    now = timezone.utcnow()
    since = context["ti"].get_first_reschedule_date(context) or now
    if now - since < wait:
        log.warning("%s: waiting, %s at most", met, wait - (now - since))
        raise AirflowRescheduleException(now + LOOK_AGAIN)


def close_run(path: str, context: Context) -> results.Result:
    """Succeed only if the ledger says that the run is done; then tell who waits for the target.

    Only of checkpoints that they were not told of. A run that is not done fails without a retry: no
    member is left that could finish it. Once the ledger has closed it, nothing that goes wrong with
    telling fails the task: the next close tells it.
    """
    from tidemark.admin import run as operation

    pipeline, run_id = Pipeline.load(path), _run_id(context)
    with as_airflow_failure(RunNotDone):
        closed = operation.close_run(pipeline, resolve(pipeline), run_id=run_id)
    _announce(context, pipeline, closed, run_id)
    result = results.of_close(closed)
    with best_effort("the log of the run"):
        _tell(results.close_lines(pipeline.into, result))
    return result


def _announce(context: Context, pipeline: Pipeline, closed: "Closed", run_id: str) -> None:
    """Send what nobody was told of; the ledger keeps that it is on its way.

    Airflow sends the event when this task has succeeded. So the verdict, which comes after it,
    writes that it was told; a task that dies in between is tried again, or the next run tells it.
    """
    from tidemark.admin import announce as operation

    send_nothing(context, pipeline)
    with best_effort("the asset event"):
        connections = resolve(pipeline)
        if news := operation.news(pipeline, connections, closed):
            warehouse = connections[pipeline.warehouse]
            send_of_targets(context, pipeline, published_event(closed, news), warehouse)
            operation.announce(pipeline, connections, run_id=run_id, seq=closed.checkpoint.seq)
    if pipeline.complete:
        with best_effort("the event of periods"):
            _announce_periods(context, pipeline, closed, run_id)


def _announce_periods(context: Context, pipeline: Pipeline, closed: "Closed", run_id: str) -> None:
    from tidemark.admin.announce import period_news

    with period_news(pipeline, resolve(pipeline), run_id=run_id) as periods:
        if periods:
            extra = complete_event(pipeline, closed, periods)
            send(context, complete_assets(pipeline), extra, extra["periods"])
            _tell(results.period_lines(periods))


def judge_run(path: str, context: Context) -> None:
    """Return if the ledger says that the run is done: a task that was cleared may have reopened it.

    As the bound of the run, reset one that is still open; skip where its open was skipped; and
    fail with a host's own task before it, as Airflow judges the DAG run by its last task.
    """
    from tidemark.admin import announce
    from tidemark.admin import run as operation

    pipeline, run_id = Pipeline.load(path), _run_id(context)
    if is_bound := context["task"].is_teardown:
        _skip_with_open(context)
    judge = operation.end_run if is_bound else operation.check_closed
    with as_airflow_failure(RunNotDone):
        connections = resolve(pipeline)
        closed = judge(pipeline, connections, run_id=run_id)
    run = tasks_of_run(context["task"])
    if not is_bound or len(run.verdict) == 1:
        with best_effort("what was told of the run"):
            _tell(results.verdict_lines(pipeline.into, results.of_close(closed)))
            if _is_sent(context, run):
                announce.confirm(pipeline, connections, run_id=run_id)
    if is_bound:
        _refuse_failed_between(context)


def _skip_with_open(context: Context) -> None:
    """Skip where a host's own task before the open, such as a branch, skipped all of the run."""
    [opened] = tasks_of_run(context["task"]).open
    is_skipped = _states(context, [opened.task_id]).get(opened.task_id) == "skipped"
    if is_skipped and opened.upstream_task_ids:
        raise AirflowSkipException(f"{opened.task_id} was skipped, so there is no run")


def _refuse_failed_between(context: Context) -> None:
    between = tasks_of_run(context["task"]).between
    states = _states(context, sorted(between)) if between else {}
    if failed := sorted(key for key, one in states.items() if one in ("failed", "upstream_failed")):
        raise AirflowFailException(
            f"{', '.join(failed)} failed. The run is closed, and its rows are in the target"
        )


def _is_sent(context: Context, run: RunTasks) -> bool:
    """Whether close succeeded: then Airflow sent its events."""
    [closed] = run.close
    return _states(context, [closed.task_id]).get(closed.task_id) == "success"


def reset_failed_run(path: str, context: Context) -> results.Result | None:
    """Restore the merged checkpoint; succeed as superseded if a newer epoch holds the region.

    Do nothing where the ledger calls the run closed.
    """
    from tidemark.admin.reset import reset_region
    from tidemark.ledger.actions import Order

    pipeline, run_id = Pipeline.load(path), _run_id(context)
    with as_airflow_failure():
        try:
            order = Order("airflow", f"{run_id} did not close")
            report = reset_region(pipeline, resolve(pipeline), order, run_id=run_id)
        except Superseded as superseded:
            log.info("superseded, nothing left to do: %s", superseded)
            return None
    _tell(results.reset_log(pipeline.into, report))
    return results.of_reset(pipeline.into, report)


def look_at_reset(path: str, context: Context) -> results.Result:
    """Say what the form's reset would change."""
    pipeline = Pipeline.load(path)
    report = _reset_of_form(pipeline, _resolved(pipeline), context, None)
    asked = "It waits for the approval of exactly this"
    next_step = asked if context["params"]["apply"] else results.APPLY
    _tell(results.reset_log(pipeline.into, report, next_step))
    return results.of_reset(pipeline.into, report)


def reset_by_hand(
    path: str, context: Context, approved: "Approved | None" = None, *, by: str = ""
) -> results.Result:
    """Reset the region whatever epoch holds it, or say what that would change; keep the report.

    `to` of the form is the last checkpoint, or an older place: then it is a rewind, which removes
    the rows and dead letters that were published after it. `by` has approved it.
    """
    from tidemark.admin import announce
    from tidemark.ledger.actions import Order

    pipeline, form = Pipeline.load(path), _form(context)
    asked_by = f"{who(context)}, approved by {by}" if by else who(context)
    order = Order(asked_by, form["why"] or "by hand") if form["apply"] else None
    connections = _resolved(pipeline)
    report = _reset_of_form(pipeline, connections, context, order, approved)
    send_nothing(context, pipeline)
    with best_effort("what was told of the rewind"):
        if extra := rewound_event(report, announce.periods_taken_back(pipeline, connections)):
            send_of_targets(context, pipeline, extra, connections[pipeline.warehouse])
            announce.told_of_rewind(pipeline, connections, epoch=report.epoch)
    _tell(results.reset_log(pipeline.into, report))
    return results.of_reset(pipeline.into, report)


def _form(context: Context) -> dict[str, Any]:
    with as_airflow_failure():
        if "reason" in (form := context["params"]):
            raise NameChanged(given="reason", now="why")
    return dict(form)


def _resolved(pipeline: Pipeline) -> "dict[str, Connection]":
    with as_airflow_failure():
        return resolve(pipeline)


def _reset_of_form(
    pipeline: Pipeline,
    connections: "dict[str, Connection]",
    context: Context,
    order: "Order | None",
    approved: "Approved | None" = None,
) -> "ResetReport":
    """Without an order it is a dry run."""
    from tidemark.admin.reset import reset_region
    from tidemark.protocol.reset import destination

    form = _form(context)
    with as_airflow_failure():
        return reset_region(
            pipeline,
            connections,
            order,
            to=destination(form["to"]),
            overrides=[name for name in REWIND_OVERRIDES if form.get(name)],
            request_id=_run_id(context),
            approved=approved,
        )


def _missing(context: Context) -> list[str]:
    """Which steps of the run will not come after this task; none, where Airflow does not tell.

    Without all of them nobody works in an epoch, closes it, or judges the run.
    """
    run = tasks_of_run(context["task"])
    states = _states(context, [one.task_id for one in (*run.drain, *run.close, *run.verdict)])

    def is_over(one: Any) -> bool:  # a mapped one is told of as drain_0
        found = (state for key, state in states.items() if _is_of(one.task_id, key))
        return all(state in OVER for state in found)

    over = {
        "drain": all(map(is_over, run.drain)),
        "close": any(map(is_over, run.close)),
        "verdict": any(map(is_over, run.verdict)),
    }
    return [name for name, is_it in over.items() if is_it and states]


def _is_of(task_id: str, key: str) -> bool:
    return key == task_id or key.startswith(f"{task_id}_")


def _states(context: Context, task_ids: list[str]) -> dict[str, str | None]:
    """The states of these tasks of the DAG run; none where Airflow does not tell."""
    ti = context["ti"]
    found = ti.get_task_states(dag_id=ti.dag_id, task_ids=task_ids, run_ids=[ti.run_id])
    states: dict[str, str | None] = found.get(ti.run_id) or {}
    return states


def _run_id(context: Context) -> str:
    ti = context["ti"]
    return ledger_run_id(ti.dag_id, ti.run_id, ti.task_id)


def _tell(lines: Iterable[str]) -> None:
    """Each a line of the log, as Airflow's page folds long ones."""
    for line in lines:
        log.info("%s", line)


def _overrides(params: dict[str, Any]) -> list[str]:
    """Those that are on; one that takes a text carries it."""
    given = {name: params.get(name) for name in OVERRIDES}
    return [name if on is True else f"{name} {on}" for name, on in given.items() if on]


def _bounds(pipeline: Pipeline, params: dict[str, Any]) -> Bounds:
    wanted = {name: params.get(name) for name in BOUNDS}
    return replace(pipeline.bounds(), **{k: v for k, v in wanted.items() if v is not None})
