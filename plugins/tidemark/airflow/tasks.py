"""Tasks: open, close, reset, verdict, as Airflow runs them; only a running one imports clients.

Each target's asset event says what the run published, to the DAGs that are scheduled on it.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, Context, get_current_context
from airflow.sdk.exceptions import AirflowFailException, AirflowRuntimeError

from tidemark.airflow import results
from tidemark.airflow.credentials import resolve
from tidemark.airflow.errors import AssetOfNoTarget
from tidemark.airflow.forms import BOUNDS, OVERRIDES, REWIND_OVERRIDES, who
from tidemark.airflow.results import as_airflow_failure
from tidemark.errors import RunNotDone, Superseded
from tidemark.model.batch import ONLY
from tidemark.model.plain import plain
from tidemark.model.plan import Bounds
from tidemark.settings.described import ledger_run_id
from tidemark.settings.errors import NameChanged
from tidemark.settings.pipeline import Pipeline

if TYPE_CHECKING:
    from tidemark.admin.reset import ResetReport
    from tidemark.ledger.queries import PublishedCounts
    from tidemark.protocol.close import Closed


log = logging.getLogger(__name__)

Extra = dict[str, Any]


def newest_event(context: Context, asset: Asset) -> Extra:
    """What the newest event says; nothing if there is none.

    Only Airflow knows it: a failed run may have published batches and sent no event.
    """
    try:
        found = context["inlet_events"][asset].ascending(False).limit(1)
        return dict(found[0].extra) if len(found) else {}
    except AirflowRuntimeError as error:
        log.warning("the newest event is unknown, so one is sent: %s", error)
        return {}


def send_event(context: Context, assets: Sequence[Asset], extra: Extra | None) -> None:
    """Send one event for each if the task ends well; none without extra."""
    if extra is None:
        # Airflow sends one for each outlet of a task, whether or not it was given an extra.
        context["ti"].task.outlets = []
    else:
        for asset in assets:
            context["outlet_events"][asset].extra = extra


def published_event(closed: "Closed", after_seq: int, counted: "PublishedCounts") -> Extra:
    """The target holds the batches after `after_seq` up to `seq`: so many rows and dead letters."""
    at = closed.checkpoint
    return {
        "kind": "published",
        "region": at.region,
        "epoch": at.epoch,
        "after_seq": after_seq,
        "seq": at.seq,
        "batches": counted.batches,
        "rows": counted.rows,
        "dead_letters": counted.dead_letters,
        "offsets": plain(at.offsets),
    }


def rewound_event(report: "ResetReport", told: Extra) -> Extra | None:
    """Batches after `seq` are gone from the target; None where nothing was removed.

    None too where the newest event, `told`, says so: a task that is cleared reports again.
    """
    back = report.removed
    if back is None or not report.applied:
        return None
    if (told.get("kind"), told.get("epoch")) == ("rewound", report.epoch):
        return None
    return {
        "kind": "rewound",
        "region": report.region,
        "epoch": report.epoch,
        "from_seq": report.head_seq,
        "seq": report.to_seq,
        "batches_removed": back.batches,
        "rows_removed": back.rows,
        "dead_letters_removed": back.dead_letters,
        "offsets": plain(report.offsets),
    }


STEPS = ("drain", "verdict")
"""What tells an open what its epoch is for."""

OVER = {"success", "failed", "skipped", "upstream_failed", "removed"}
"""States of tasks that will not run, unless somebody clears them."""


def open_run(path: str) -> results.Result:
    """Open the DAG run's epoch, within the bounds of its form and with its overrides.

    A task of the run that is cleared clears this one too: which others come tells what for.

    Raises:
        AirflowFailException: drain is to come and the verdict is not: nobody would judge the run.
    """
    from tidemark.runs import open as operation

    context, pipeline = get_current_context(), Pipeline.load(path)
    params, run_id = context["params"], _run_id(context)
    to_come = _to_come(context)
    if "drain" in to_come and "verdict" not in to_come:
        raise AirflowFailException(
            f"run {run_id}: drain was cleared without the tasks that judge the run. Nothing was"
            " opened. Clear drain together with all tasks that follow"
        )
    with as_airflow_failure():
        opened = operation.open_run(
            pipeline,
            resolve(pipeline),
            run_id=run_id,
            bounds=_bounds(pipeline, params),
            overrides=_overrides(params),
            members_come="drain" in to_come,
            who=who(context),
        )
    _tell(results.open_lines(pipeline.region, run_id, opened))
    result: results.Result = plain(opened)
    return result


def close_run(path: str) -> results.Result:
    """Succeed only if the ledger says that the run is done; then tell who waits for the target.

    Only of checkpoints that they were not told of. A run that is not done fails without a retry: no
    member is left that could finish it.
    """
    from tidemark.admin import run as operation

    context, pipeline = get_current_context(), Pipeline.load(path)
    assets, connections = target_assets(pipeline), resolve(pipeline)
    extra = None
    with as_airflow_failure(RunNotDone):
        closed = operation.close_run(pipeline, connections, run_id=_run_id(context))
        after_seq = int(newest_event(context, assets[0]).get("seq", 0))
        if closed.checkpoint.seq != after_seq:
            counted = operation.counted_after(pipeline, connections, after_seq)
            extra = published_event(closed, after_seq, counted)
    send_event(context, assets, extra)
    result = results.of_close(closed)
    _tell(results.close_lines(pipeline.into, result))
    return result


def tell_verdict(path: str, closed: results.Result | None) -> None:
    """Say that the run is done, and what it did: this task runs for no other.

    The ledger says it too: a task that was cleared may have opened the run again.
    """
    from tidemark.admin import run as operation

    context, pipeline = get_current_context(), Pipeline.load(path)
    with as_airflow_failure(RunNotDone):
        operation.check_closed(pipeline, resolve(pipeline), run_id=_run_id(context))
    table = pipeline.into
    _tell(results.verdict_lines(table, closed) if closed else ["DONE"])  # or XCom is switched off


def reset_failed_run(path: str) -> results.Result | None:
    """Restore the merged checkpoint; succeed as superseded if a newer epoch holds the region."""
    from tidemark.admin.reset import reset_region
    from tidemark.ledger.actions import Order

    context, pipeline = get_current_context(), Pipeline.load(path)
    run_id = _run_id(context)
    with as_airflow_failure():
        try:
            order = Order("airflow", f"{run_id} did not close")
            report = reset_region(pipeline, resolve(pipeline), order, run_id=run_id)
        except Superseded as superseded:
            log.info("superseded, nothing left to do: %s", superseded)
            return None
    _tell(results.reset_log(pipeline.into, report))
    return results.of_reset(pipeline.into, report)


def reset_by_hand(path: str) -> results.Result:
    """Reset the region whatever epoch holds it, or say what that would change; keep the report.

    `to` of the form is the last checkpoint, or an older place: then it is a rewind, which removes
    the rows and dead letters that were published after it.
    """
    from tidemark.admin.reset import reset_region
    from tidemark.ledger.actions import Order
    from tidemark.protocol.reset import destination

    context, pipeline = get_current_context(), Pipeline.load(path)
    with as_airflow_failure():
        if "reason" in context["params"]:
            raise NameChanged(given="reason", now="why")
        order = Order(who(context), context["params"]["why"] or "by hand")
        report = reset_region(
            pipeline,
            resolve(pipeline),
            order if context["params"]["apply"] else None,
            to=destination(context["params"]["to"]),
            overrides=[name for name in REWIND_OVERRIDES if context["params"].get(name)],
            request_id=_run_id(context),
        )
    assets = target_assets(pipeline)
    send_event(context, assets, rewound_event(report, newest_event(context, assets[0])))
    _tell(results.reset_log(pipeline.into, report))
    return results.of_reset(pipeline.into, report)


def target_assets(pipeline: Pipeline) -> list[Asset]:
    """The assets of all targets: each is told of what became visible in all of them at once."""
    return [target_asset(pipeline, name) for name in pipeline.all_targets]


def target_asset(pipeline: Pipeline, target: str = ONLY) -> Asset:
    """The target, by its name if there are several, as other DAGs may schedule on it.

    Its address is the connection's id, not its host: a connection is known only to a running
    task, and the postgres scheme refuses an address without host and database.

    Raises:
        InvalidSettings: there is no such target.
    """
    if target not in pipeline.tables:
        raise AssetOfNoTarget(region=pipeline.region, targets=tuple(pipeline.tables))
    connection, table = pipeline.warehouse, pipeline.tables[target]
    return Asset(
        name=f"{connection}/{table}",
        uri=f"tidemark://{connection}/{table.replace('.', '/')}",
        group="tidemark",
    )


def _to_come(context: Context) -> frozenset[str]:
    """Which of drain and verdict will run after this task; both, where Airflow does not tell."""
    ti = context["ti"]
    prefix = ti.task_id.removesuffix("open")  # of a task group
    ids = [f"{prefix}{name}" for name in STEPS]
    found = ti.get_task_states(dag_id=ti.dag_id, task_ids=ids, run_ids=[ti.run_id])
    states = found.get(ti.run_id) or {}
    coming = {
        name
        for name in STEPS
        for key, state in states.items()  # drain is mapped: drain_0
        if key.removeprefix(prefix).partition("_")[0] == name and state not in OVER
    }
    return frozenset(coming if states else STEPS)


def _run_id(context: Context) -> str:
    ti = context["ti"]
    return ledger_run_id(ti.dag_id, ti.run_id)


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
    return replace(pipeline.batch.bounds(), **{k: v for k, v in wanted.items() if v is not None})
