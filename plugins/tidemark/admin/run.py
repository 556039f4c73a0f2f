"""A run from outside: its close, and the whole of it without Airflow."""

import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from uuid import uuid4

from tidemark.admin.dead_letters import purge_old
from tidemark.admin.errors import GroupIsAtWork, RunNotClosed
from tidemark.admin.reset import reset_region
from tidemark.deadline import Deadline
from tidemark.errors import Fenced, Superseded, TidemarkError, Unreachable
from tidemark.ledger.actions import Order
from tidemark.model.overrides import TAKE_OVER
from tidemark.model.plan import Bounds
from tidemark.protocol.close import Closed, close, fail
from tidemark.protocol.open import UNKNOWN
from tidemark.runs.member import ExecutorOf, drain_run
from tidemark.runs.open import COMMAND_LINE, open_run
from tidemark.runs.outage import Outage, waited_out
from tidemark.runs.region import Region, region_of
from tidemark.runs.retire import green, prune, retire
from tidemark.settings.endpoints import Connections
from tidemark.settings.pipeline import Pipeline
from tidemark.tracing.traced import traced_run

log = logging.getLogger(__name__)

EVICTION_SECONDS = 5.0
"""What a coordinator may take to evict a member after its session has ended."""

LEAVE_PAUSE = 3.0
"""Between two looks whether the members of another run have left."""


def close_run(pipeline: Pipeline, connections: Connections, *, run_id: str) -> Closed:
    """The ledger says that the run is done, Kafka reads back equal, old staging is dropped.

    An outage is waited out for no_progress_seconds.

    Raises:
        RunNotDone: it is not; the text says why.
        Unreachable: the outage lasted longer; a retry may still close the run.
        Fenced: another run or a reset holds the region, and the run was not closed before.
    """
    with ExitStack() as ending:
        part = ending.enter_context(traced_run("close", pipeline.region, run_id))
        region = ending.enter_context(region_of(pipeline, connections))
        closed = _closed(region, run_id)
        with green(region.name), ending.pop_all():
            epoch = closed.checkpoint.epoch
            part.tell({"tidemark.epoch": epoch})
            retire(region.ledger.engine, region.name)
            prune(region.ledger, region.name, epoch, pipeline.retain_checkpoints)
            purge_old(region)
        return closed


def check_closed(pipeline: Pipeline, connections: Connections, *, run_id: str) -> Closed:
    """The ledger says that the run is closed, whatever its tasks have said before; what it did.

    Raises:
        RunNotDone: it has opened again since, never closed, or is no longer retained.
    """
    with region_of(pipeline, connections) as region:
        if closed := _closed_before(region, run_id):
            return closed
        run = region.ledger.run_of(region.name, run_id)
        state = run.state if run else None
        raise RunNotClosed(region=region.name, run_id=run_id, state=state)


def end_run(pipeline: Pipeline, connections: Connections, *, run_id: str) -> Closed:
    """The ledger says that the run is closed; what it did. One that is open or failed is reset.

    The reset of an open one is not counted: its close did not run, so somebody ended it.

    Raises:
        RunNotDone: it is not closed.
    """
    try:
        return check_closed(pipeline, connections, run_id=run_id)
    except RunNotClosed as not_closed:
        is_open = not_closed.state == "open"
        if is_open or not_closed.state == "failed":
            order = Order("airflow", f"{run_id} ended without its close")
            with suppress(Superseded):
                reset_region(pipeline, connections, order, run_id=run_id, is_cancelled=is_open)
        raise


def run(
    pipeline: Pipeline,
    connections: Connections,
    *,
    bounds: Bounds,
    executor_of: ExecutorOf,
    overrides: Sequence[str] = (),
    who: str = UNKNOWN,
) -> Closed:
    """The same run without Airflow: open, drain as one member, close; reset when it fails.

    Raises:
        Refused: members of another run live in the group; see overrides.
        TidemarkError: whatever ended the run; the merged checkpoint is restored, or the log says
            that the next open has to.
    """
    run_id = f"{COMMAND_LINE}{uuid4()}"
    if TAKE_OVER not in overrides:
        with region_of(pipeline, connections) as region:
            _let_the_dead_leave(region)
    with traced_run("run", pipeline.region, run_id):
        open_run(
            pipeline,
            connections,
            run_id=run_id,
            bounds=bounds,
            overrides=overrides,
            is_polite=True,
            who=who,
        )
        try:
            drain_run(
                pipeline, connections, run_id=run_id, member_name="cli", executor_of=executor_of
            )
            return close_run(pipeline, connections, run_id=run_id)
        except Fenced:
            raise
        except BaseException as error:
            _give_up(pipeline, connections, run_id, error)
            raise


def _let_the_dead_leave(region: Region) -> None:
    """Nobody holds partitions in the group.

    A member that was killed looks like one that lives until its session ends: so long is waited.
    """
    deadline = Deadline(region.pipeline.kafka.session_seconds + EVICTION_SECONDS)
    while holders := _holders(region):
        at_work = GroupIsAtWork(region=region.name, group=region.group.group_id, holders=holders)
        if deadline.is_past:
            raise at_work
        log.warning(
            "region %s: %s. If it was killed, Kafka removes it from the group: waiting up to"
            " %.0f s",
            region.name,
            at_work.fact,
            deadline.left,
        )
        time.sleep(LEAVE_PAUSE)


def _holders(region: Region) -> tuple[str, ...]:
    """Who holds partitions; one without may be on its way out: it left before it had joined."""
    return tuple(str(holder) for holder in region.group.holders() if holder.partitions)


def _give_up(
    pipeline: Pipeline, connections: Connections, run_id: str, error: BaseException
) -> None:
    """The ledger says why the run failed, and the region is reset.

    Best effort, for the run's own error must be heard: the next open does what is left.
    """
    is_cancelled = isinstance(error, KeyboardInterrupt)
    name = error.code if isinstance(error, TidemarkError) else type(error).__name__
    why = "was cancelled" if is_cancelled else f"ended with {name}"
    try:
        with region_of(pipeline, connections) as region:
            fail(region.ledger, region.name, run_id, why)
        reset_region(
            pipeline,
            connections,
            Order("cli", f"{run_id} {why}"),
            run_id=run_id,
            is_cancelled=is_cancelled,
        )
    except TidemarkError as failed:
        log.warning(
            "region %s was not reset, the next run will do it: %s: %s",
            pipeline.region,
            failed.code,
            failed,
        )


def _closed(region: Region, run_id: str) -> Closed:
    try:
        return waited_out(
            lambda: close(region.ledger, region.group, region.name, run_id),
            Outage(region.pipeline.no_progress_seconds),
        )
    except Fenced:
        if (before := _closed_before(region, run_id)) is None:
            raise
        return before
    except Unreachable as error:
        fail(region.ledger, region.name, run_id, str(error))
        raise


def _closed_before(region: Region, run_id: str) -> Closed | None:
    """What a run had published that was closed before another epoch took the region; else None."""
    ledger = region.ledger
    run = ledger.run_of(region.name, run_id)
    if run is None or run.state != "closed":
        return None
    published = ledger.published_in(region.name, run.epoch)
    return Closed(ledger.merged_checkpoint(region.name), *published)
