"""A rewind from outside: to an older checkpoint, to the initial state, to a time."""

from dataclasses import dataclass, replace
from datetime import datetime

from tidemark.errors import Refused
from tidemark.model.facts import Facts
from tidemark.model.state import RegionState
from tidemark.operations.held import Tell, held, refuse_losses
from tidemark.operations.region import Region, facts_left, topics_gone
from tidemark.operations.reset_report import Removed, ResetReport, completed, dry_run
from tidemark.postgres.transaction import autocommit
from tidemark.protocol.open import ACCEPT_CHANGES, ACCEPT_DATA_LOSS
from tidemark.protocol.reset import RewindRequest
from tidemark.protocol.rewind_plan import RewindPlan
from tidemark.protocol.settle import rewind
from tidemark.settings.pipeline import Pipeline
from tidemark.staging.rewind import PublishedRows
from tidemark.staging.target import Target
from tidemark.staging.undo import UpsertedRows


@dataclass(frozen=True, slots=True)
class RewindOrder:
    """Who wants a rewind, and what it was told to accept."""

    who: str
    why: str
    overrides: tuple[str, ...]
    request_id: str | None
    tell: Tell


def rewind_region(region: Region, to_seq: int, order: RewindOrder, *, apply: bool) -> ResetReport:
    """What was published after the checkpoint is removed, or the report says what would be.

    Raises:
        Superseded: another open or reset came between; nothing was removed.
        Refused: it can't be undone or read again, or other rows are there than were published.
    """
    state = region.state()
    facts = facts_left(region.broker, {partition.topic for partition in region.known_partitions()})
    (seen, report), plan = dry_run(region), region.ledger.rewind_plan(region.name, to_seq)
    plan.check(state, facts)
    _refuse_other_table(region, state)
    rows = _published_rows(region.pipeline)
    removed = _removed(region, plan, rows, facts)
    # Of a batch that was published while one counted, the second transaction judges.
    if ACCEPT_CHANGES not in order.overrides and region.state().head_seq == state.head_seq:
        plan.published.check(region.name, removed.removal)
    found = held(region, plan, order.tell)
    if ACCEPT_DATA_LOSS not in order.overrides:
        refuse_losses(region.name, found)
    removed = replace(
        removed,
        lost=tuple(fault for one in found.values() for fault in one.faults),
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
        seen.mirrored,
        topics_gone(region, plan.places),
        order.overrides,
        order.request_id,
    )
    return completed(
        region, report, rewind(region.ledger, region.group, rows, region.name, request)
    )


def _refuse_other_table(region: Region, state: RegionState) -> None:
    target = region.pipeline.target.table
    found = region.ledger.target_oid(target)
    if found is not None and found != (state.target_oid or found):
        raise Refused(
            f"region {region.name} can't be rewound: it published to the table with oid"
            f" {state.target_oid}, but {target} is now another table, with oid {found}. Nothing was"
            " changed. Put the old table back. If the database was restored from a dump, or the new"
            " table is meant, first start a run with --accept-changes"
        )


def _published_rows(pipeline: Pipeline) -> PublishedRows | UpsertedRows:
    target, upsert = Target.parse(pipeline.target.table), pipeline.target.upsert
    return UpsertedRows(pipeline.region, target, upsert.key) if upsert else PublishedRows(target)


def _removed(
    region: Region, plan: RewindPlan, rows: PublishedRows | UpsertedRows, facts: Facts
) -> Removed:
    with autocommit(region.ledger.engine) as cursor:
        count = rows.count_rows(cursor, plan.to_seq)
    before = {tp: place.next_offset for tp, place in plan.places.items()}
    return Removed(
        plan.batches, count, plan.dead_letters, before, plan.margins(facts), replays=plan.replays
    )


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
        raise Refused(
            f"region {region.name}: {to.isoformat()} lies before the oldest retained checkpoint"
            f" {oldest}; rewind to a later time, or to the initial state"
        )
    return seq
