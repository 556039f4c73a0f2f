"""A reset from outside: to the head, to an older checkpoint, to the initial state, to a time."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from tidemark.errors import Fenced, Refused, Superseded
from tidemark.member.retire import retire
from tidemark.model.facts import Facts
from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.model.state import RegionState
from tidemark.operations.held import Tell, held, refuse_losses
from tidemark.operations.region import (
    Connections,
    MirrorSeen,
    Region,
    facts_left,
    mirror_seen,
    region_of,
    topics_gone,
)
from tidemark.postgres.transaction import autocommit
from tidemark.protocol.mirror import mirror
from tidemark.protocol.open import ACCEPT_CHANGES, ACCEPT_DATA_LOSS
from tidemark.protocol.removal import Removal
from tidemark.protocol.reset import Destination, ResetRequest, RewindPlan, RewindRequest
from tidemark.protocol.settle import Settled, rewind, settle
from tidemark.settings.pipeline import Pipeline
from tidemark.staging.rewind import PublishedRows
from tidemark.staging.target import Target

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Removed:
    """What a rewind removes; a reset to the head removes nothing."""

    batches: int
    rows: int
    dead_letters: int
    offsets: Offsets
    """Where each partition stood before."""
    margins: dict[TopicPartition, int]
    """Offsets between Kafka's log start and where reading begins again."""
    lost: tuple[str, ...] = ()
    """What Kafka no longer gives of the records that made these rows, accepted."""
    seconds: dict[TopicPartition, int | None] = field(default_factory=dict)
    """Until the oldest record to be read again may be deleted; None if retention never does."""

    @property
    def removal(self) -> Removal:
        """What would be removed."""
        return Removal(self.rows, self.dead_letters)


@dataclass(frozen=True, slots=True)
class ResetReport:
    """What a reset did, or in a dry run (applied false) would do."""

    region: str
    applied: bool
    epoch: int
    head_seq: int
    to_seq: int
    discards_seq: int | None
    offsets: Offsets
    """Where each partition stands afterwards."""
    drift: tuple[str, ...]
    removed: Removed | None = None


def reset_region(
    pipeline: Pipeline,
    connections: Connections,
    *,
    run_id: str | None,
    apply: bool,
    who: str,
    why: str,
    to: Destination = None,
    overrides: Sequence[str] = (),
    request_id: str | None = None,
    tell: Tell = log.info,
) -> ResetReport:
    """Everyone is fenced, nothing is unpublished, Kafka equals the ledger; or what that would do.

    With run_id it resets to the head, and only if that run's epoch still holds the region. `to`
    rewinds: what was published after it is removed. `overrides` of a rewind are kept with it:
    accept_changes removes what is there, though it is not what the ledger published;
    accept_data_loss goes on though Kafka no longer gives all records again. Under one request_id a
    region is reset once. A dry run (apply=False) writes nothing to Postgres or Kafka.

    Raises:
        Superseded: another epoch holds the region; nothing was done.
        Refused: there is no such checkpoint, or Kafka no longer holds what would be read again; or
            the request was done before.
    """
    with region_of(pipeline, connections) as region:
        if to is not None:
            asked = _Asked(who, why, tuple(overrides), request_id, tell)
            return _rewind(region, _seq_of(region, to), asked, apply=apply)
        seen, report = _dry_run(region)
        if not apply:
            return report
        run = region.ledger.run_of(region.name, run_id) if run_id else None
        if run_id and run is None:
            raise Superseded(f"region {region.name}: run {run_id} never opened; nothing to reset")
        epoch = run.epoch if run else None
        gone = topics_gone(region, report.offsets)
        request = ResetRequest(who, why, run_id, epoch, seen.mirrored, gone, request_id)
        try:
            settled = _reset(region, request)
        except Fenced as error:
            raise Superseded(
                f"{error}. It is after this reset and has brought Kafka level: nothing is left"
                " to do"
            ) from error
        region.ledger.finish_reset(region.name, settled.epoch)
        return _applied(region, report, settled)


def _reset(region: Region, request: ResetRequest) -> Settled:
    """Settle; or where this run's reset has been decided and died before its mirror, mirror."""
    decided = region.ledger.unfinished_reset(region.name, request.run_id)
    if decided is None:
        return settle(region.ledger, region.group, region.name, request)
    mirror(region.ledger, region.group, region.name, decided, gone=request.gone)
    return Settled(decided)


@dataclass(frozen=True, slots=True)
class _Asked:
    """Who wants a rewind, and what it was told to accept."""

    who: str
    why: str
    overrides: tuple[str, ...]
    request_id: str | None
    tell: Tell


def _rewind(region: Region, to_seq: int, asked: _Asked, *, apply: bool) -> ResetReport:
    state = region.state()
    facts = facts_left(region.broker, {partition.topic for partition in region.known_partitions()})
    (seen, report), plan = _dry_run(region), region.ledger.rewind_plan(region.name, to_seq)
    plan.check(state, facts)
    _refuse_other_table(region, state)
    rows = PublishedRows(Target.parse(region.pipeline.target.table))
    removed = _removed(region, plan, rows, facts)
    # Of a batch that was published while one counted, the second transaction judges.
    if ACCEPT_CHANGES not in asked.overrides and region.state().head_seq == state.head_seq:
        plan.published.check(region.name, removed.removal)
    found = held(region, plan, asked.tell)
    if ACCEPT_DATA_LOSS not in asked.overrides:
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
        asked.who,
        asked.why,
        to_seq,
        facts,
        state.epoch,
        seen.mirrored,
        topics_gone(region, plan.places),
        asked.overrides,
        asked.request_id,
    )
    return _applied(region, report, rewind(region.ledger, region.group, rows, region.name, request))


def _refuse_other_table(region: Region, state: RegionState) -> None:
    target = region.pipeline.target.table
    found = region.ledger.target_oid(target)
    if found is not None and found != (state.target_oid or found):
        raise Refused(
            f"region {region.name} can't be rewound: it has published to the table with oid"
            f" {state.target_oid}, and {target} is another one, with oid {found}. Nothing was"
            " changed. Put the table back; or, where the database was restored from a dump or the"
            " table is meant to be another, first open a run with --accept-changes"
        )


def _removed(region: Region, plan: RewindPlan, rows: PublishedRows, facts: Facts) -> Removed:
    with autocommit(region.ledger.engine) as cursor:
        count = rows.count_rows(cursor, plan.to_seq)
    before = {tp: place.next_offset for tp, place in plan.places.items()}
    return Removed(plan.batches, count, plan.dead_letters, before, plan.margins(facts))


def _seq_of(region: Region, to: int | datetime) -> int:
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


def _dry_run(region: Region) -> tuple[MirrorSeen, ResetReport]:
    """What a reset to the head would do, and the mirror as it is now."""
    state = region.state()
    checkpoint = region.ledger.merged_checkpoint(region.name)
    seen = mirror_seen(region, checkpoint.offsets)
    return seen, ResetReport(
        region=region.name,
        applied=False,
        epoch=state.epoch,
        head_seq=state.head_seq,
        to_seq=state.head_seq,
        discards_seq=region.ledger.unpublished_seq(region.name),
        offsets=checkpoint.offsets,
        drift=seen.drift,
    )


def _applied(region: Region, report: ResetReport, settled: Settled) -> ResetReport:
    retire(region.ledger.engine, region.name)
    return replace(report, applied=True, epoch=settled.epoch, discards_seq=settled.discarded_seq)
