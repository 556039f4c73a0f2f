"""A replay of dead letters from outside: what it would do, and all of it in one process."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from uuid import uuid4

from tidemark.errors import Refused, TargetRefused, TidemarkError
from tidemark.ledger.actions import Order
from tidemark.member.job import Job, start_job
from tidemark.member.retire import retire
from tidemark.model.batch import Batch, Contribution
from tidemark.model.dead_letters import LetterFilter
from tidemark.model.incomplete_read import refuse_unread
from tidemark.operations.drain import ExecutorOf
from tidemark.operations.region import Connections, Region, mirror_seen, region_of, topics_gone
from tidemark.operations.replay_report import ReplayReport, check, dry_run, refusal, replay_request
from tidemark.postgres.transaction import transaction
from tidemark.protocol.mirror import mirror
from tidemark.protocol.replay import Replayed, plan_replay, publish_replay
from tidemark.protocol.reset import ResetRequest
from tidemark.protocol.settle import settle
from tidemark.settings.pipeline import Pipeline
from tidemark.staging.movers import Movers
from tidemark.staging.reads import complete_reads
from tidemark.staging.replay import ReplayMover

CHOOSE = (
    "A replay publishes all that it has chosen, or nothing. Correct the table, or choose without"
    " that record: by --partition, --reason, --since or --until"
)

log = logging.getLogger(__name__)


def replay_letters(
    pipeline: Pipeline,
    connections: Connections,
    meant: LetterFilter,
    limit: int,
    order: Order | None,
    executor_of: ExecutorOf,
) -> ReplayReport:
    """Dead letters that can be decoded now are rows; without an order the report says which.

    If it crashes: the dead letters are as they were, or the batch is published whole.

    Raises:
        Refused: the target is upserted, the region is not at rest, or rows would be made with other
            settings than those of the checkpoint.
        Fenced, Superseded: another open or a reset came; nothing was published.
        TargetRefused: a constraint of the target refuses a row; nothing was published.
    """
    if any(one.upsert for one in pipeline.all_targets.values()):
        raise Refused(
            f"region {pipeline.region}: a target of it is upserted, and a dead letter is older"
            " than the rows that came after it: a replay could put an old row in the place of a"
            " newer one. Produce the records again, or correct the rows by hand"
        )
    with region_of(pipeline, connections) as region:
        report = dry_run(region, connections, meant, limit)
        if order is None:
            return replace(report, refused=refusal(region, connections))
        if not report.chosen:
            return report
        return _replayed(region, connections, meant, limit, order, executor_of, report)


def _replayed(
    region: Region,
    connections: Connections,
    meant: LetterFilter,
    limit: int,
    order: Order,
    executor_of: ExecutorOf,
    report: ReplayReport,
) -> ReplayReport:
    state, pipeline = region.state(), region.pipeline
    seen = mirror_seen(region, region.ledger.merged_checkpoint(region.name).offsets)
    gone = topics_gone(region, region.known_partitions())
    why = f"replay of dead letters: {order.why}"
    request = replay_request(region, state, order.who, why, seen.mirrored, gone)
    check(region, state, request)
    number = region.ledger.register_member(region.name, state.epoch, uuid4(), "replay")
    with _shown(region, number):
        job = start_job(pipeline, region.ledger, lambda: executor_of(pipeline, connections, number))
        try:
            epoch = settle(region.ledger, region.group, region.name, request).epoch
            region.ledger.finish_reset(region.name, epoch)
            with _given_up(region, epoch):
                done = _published(region, epoch, number, job, meant, limit)
        finally:
            job.executor.close()
    _tidied(region, epoch, gone)
    if done is None:
        return replace(report, epoch=epoch, chosen=0, replayed=0, kept={})
    is_alike = sum(report.kept.values()) == done.kept
    return replace(
        report,
        applied=True,
        epoch=epoch,
        head_seq=done.seq,
        chosen=done.replayed + done.kept,
        replayed=done.replayed,
        kept=report.kept if is_alike else {"(see dead-letters)": done.kept},
        rows=done.rows,
    )


def _published(
    region: Region, epoch: int, number: int, job: Job, meant: LetterFilter, limit: int
) -> Replayed | None:
    """Plan, drain and publish; None where nothing is left to replay."""
    ledger = region.ledger
    batch = plan_replay(ledger, region.name, epoch, meant, limit)
    if batch is None:
        return None
    movers = Movers(
        tuple(replace(one, refused_become_dead_letters=False) for one in job.movers.movers)
    )
    with ledger.deciding(region.name, epoch, "staging") as tx:
        movers.create_staging(tx.cursor, batch)
    return publish_replay(ledger, ReplayMover(movers), batch, _staged(region, batch, number, job))


def _staged(region: Region, batch: Batch, number: int, job: Job) -> Contribution:
    spans = [planned.span for planned in batch.spans]
    winners = job.executor.drain(batch, spans)
    with transaction(region.ledger.engine, "reads") as cursor:
        reads = complete_reads(cursor, batch.staging, number, spans)
    refuse_unread(batch, spans, reads, region.pipeline.transform)
    return Contribution(number, reads, tuple(one for one in winners if any(one.rows.values())))


@contextmanager
def _shown(region: Region, number: int) -> Iterator[None]:
    """The member's state, for display."""
    try:
        yield
    except BaseException:
        with suppress(TidemarkError):
            region.ledger.show_member(number, "failed")
        raise
    region.ledger.show_member(number, "done")


@contextmanager
def _given_up(region: Region, epoch: int) -> Iterator[None]:
    """A replay that fails leaves the region at rest, if it can; else the next open does it."""
    try:
        yield
    except BaseException as error:
        with suppress(TidemarkError):
            request = ResetRequest("replay", "the replay failed", epoch=epoch)
            settled = settle(region.ledger, region.group, region.name, request)
            region.ledger.finish_reset(region.name, settled.epoch)
            retire(region.ledger.engine, region.name)
        if isinstance(error, TargetRefused):
            raise TargetRefused(f"{error}. {CHOOSE}") from error
        raise


def _tidied(region: Region, epoch: int, gone: frozenset[str]) -> None:
    """Kafka's metadata name the new head, best effort; staging that is done with goes."""
    try:
        mirror(region.ledger, region.group, region.name, epoch, gone=gone)
    except TidemarkError as error:
        log.warning("the mirror is behind; the next open writes it again: %s", error)
    retire(region.ledger.engine, region.name)
