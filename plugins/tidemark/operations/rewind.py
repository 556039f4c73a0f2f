"""A rewind from outside: to an older checkpoint, to the initial state, to a time."""

from dataclasses import dataclass, replace
from datetime import datetime

from tidemark.model.batch import Rows
from tidemark.model.facts import Facts
from tidemark.model.state import RegionState
from tidemark.operations.errors import RewindIntoOtherTable, RewindTooFar
from tidemark.operations.held import Tell, held, refuse_losses
from tidemark.operations.region import Region, facts_left, topics_gone, unsubscribed
from tidemark.operations.reset_report import Removed, ResetReport, completed, dry_run
from tidemark.postgres.transaction import autocommit
from tidemark.protocol.changes import check_targets
from tidemark.protocol.open import ACCEPT_CHANGES, ACCEPT_DATA_LOSS
from tidemark.protocol.removal import Removal
from tidemark.protocol.reset import RewindRequest
from tidemark.protocol.rewind_plan import RewindPlan
from tidemark.protocol.settle import rewind
from tidemark.settings.pipeline import Pipeline
from tidemark.staging.rewinds import RowsOfTargets
from tidemark.staging.target import Target


@dataclass(frozen=True, slots=True)
class RewindOrder:
    """Who wants a rewind, and what it was told to accept."""

    who: str
    why: str
    overrides: tuple[str, ...]
    request_id: str | None
    tell: Tell
    is_look: bool = False
    """A dry run by a reader: no record is read from Kafka, so what it still holds of them is not
    known; and the role need not have the right to delete."""


def rewind_region(region: Region, to_seq: int, order: RewindOrder, *, apply: bool) -> ResetReport:
    """What was published after the checkpoint is removed, or the report says what would be.

    Raises:
        Superseded: another open or reset came between; nothing was removed.
        Refused: it can't be undone or read again, or other rows are there than were published.
    """
    state = region.state()
    facts = _facts(region)
    (seen, report), plan = dry_run(region), region.ledger.rewind_plan(region.name, to_seq)
    check_targets(state, region.pipeline.tables)
    plan.check(state, facts)
    topics = region.pipeline.sent_to
    plan.check_sent(region.name, topics, order.overrides)
    is_accepted = ACCEPT_DATA_LOSS in order.overrides
    plan.check_left(region.name, facts.unsubscribed, is_accepted=is_accepted)
    _refuse_other_table(region, state)
    rows = published_rows(region.pipeline, deletes=not order.is_look)
    found_rows = _count_rows(region, rows, to_seq)
    removed = _removed(plan, found_rows, facts)
    # Of a batch that was published while one counted, the second transaction judges.
    if ACCEPT_CHANGES not in order.overrides and region.state().head_seq == state.head_seq:
        plan.published.check(region.name, Removal(found_rows, plan.dead_letters, plan.replays))
    found = held(region, plan, order.tell) if not order.is_look else {}
    if not is_accepted:
        refuse_losses(region.name, found)
    removed = replace(
        removed,
        lost=(
            *(
                f"{span}, {records} records: the pipeline no longer reads the topic"
                for span, records in plan.left(facts.unsubscribed).items()
            ),
            *(fault for one in found.values() for fault in one.faults),
        ),
        seconds={tp: one.seconds for tp, one in found.items()},
    )
    report = replace(report, to_seq=to_seq, offsets=plan.offsets, removed=removed)
    if not apply:
        return report
    request = RewindRequest(
        order.who,
        order.why,
        to_seq,
        facts,
        state.epoch,
        region.pipeline.tables,
        seen.mirrored,
        topics_gone(region, plan.places),
        order.overrides,
        order.request_id,
        topics,
    )
    return completed(
        region, report, rewind(region.ledger, region.group, rows, region.name, request)
    )


def _facts(region: Region) -> Facts:
    known = region.known_partitions()
    facts = facts_left(region.broker, {partition.topic for partition in known})
    return replace(facts, unsubscribed=unsubscribed(region, known))


def _refuse_other_table(region: Region, state: RegionState) -> None:
    for name, table in region.pipeline.tables.items():
        found = region.ledger.target_oid(table)
        oid = state.targets[name].oid if name in state.targets else None
        if found is not None and found != (oid or found):
            raise RewindIntoOtherTable(
                region=region.name, table=table, published_oid=oid, oid=found
            )


def published_rows(pipeline: Pipeline, *, deletes: bool = True) -> RowsOfTargets:
    """What the region has published, in each of its targets; see `RowsOfTargets.deletes`."""
    targets = (Target.parse(table, name) for name, table in pipeline.tables.items())
    return RowsOfTargets(pipeline.region, tuple(targets), deletes)


def _count_rows(region: Region, rows: RowsOfTargets, to_seq: int) -> Rows:
    with autocommit(region.ledger.engine) as cursor:
        return rows.count_rows(cursor, to_seq)


def _removed(plan: RewindPlan, rows: Rows, facts: Facts) -> Removed:
    before = {tp: place.next_offset for tp, place in plan.places.items()}
    counts = plan.batches, sum(rows.values()), plan.dead_letters
    margins = plan.margins(facts)
    return Removed(*counts, before, margins, replays=plan.replays, by_target=rows)


def seq_of(region: Region, to: int | datetime) -> int:
    """The checkpoint that a destination means."""
    if isinstance(to, int):
        return to
    partitions = sorted(region.known_partitions())
    moment = int(to.timestamp() * 1000)
    offsets = region.broker.offsets_at(partitions, moment)
    seq = region.ledger.checkpoint_before(region.name, offsets)
    oldest = region.state().oldest_seq
    if seq < oldest:
        raise RewindTooFar(region=region.name, moment=to, oldest_seq=oldest)
    return seq
