"""Resets from outside: to the head; a rewind to an older checkpoint, the initial state or a time.

A report says what was done, or would be.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidemark.admin.errors import (
    ResetOfClosedRun,
    ResetOfNoRun,
    ResetOvertaken,
    RewindIntoOtherTable,
)
from tidemark.admin.held import Held, Tell, held, refuse_losses
from tidemark.admin.moment import seq_of
from tidemark.errors import Fenced
from tidemark.ledger.actions import Order
from tidemark.model.batch import Removal, Rows
from tidemark.model.facts import Facts
from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.model.overrides import ACCEPT_CHANGES, ACCEPT_DATA_LOSS
from tidemark.model.plain import amount
from tidemark.model.state import Mirrored, RegionState
from tidemark.postgres.transaction import autocommit
from tidemark.protocol.changes import refuse_other_targets
from tidemark.protocol.mirror import mirror
from tidemark.protocol.output import refuse_other_output
from tidemark.protocol.reset import Approved, Destination, ResetRequest, RewindRequest
from tidemark.protocol.rewind_plan import RewindPlan, refuse_other_removal
from tidemark.protocol.settle import Settled, rewind, settle
from tidemark.runs.region import (
    MirrorSeen,
    Region,
    facts_left,
    mirror_seen,
    region_of,
    topics_gone,
    unsubscribed,
)
from tidemark.runs.retire import retire
from tidemark.settings.endpoints import Connections
from tidemark.settings.pipeline import Pipeline
from tidemark.staging.rewind import RowsOfTargets
from tidemark.tracing.traced import traced_run

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
    """Offsets between Kafka's log start and where reading begins again; without partitions that
    Kafka no longer has."""
    lost: tuple[str, ...] = ()
    """What of the records that made these rows nobody reads again, or Kafka no longer gives;
    accepted."""
    seconds: dict[TopicPartition, int | None] = field(default_factory=dict)
    """Until the oldest record to be read again may be deleted; None if retention never does."""
    replays: int = 0
    """Dead letters that became rows later: they are dead letters again."""
    by_target: Rows = field(default_factory=dict)
    """The rows by the name of their target; empty in the report of a reset that is over."""


@dataclass(frozen=True, slots=True)
class ResetReport:
    """What a reset did, or in a dry run (applied false) would do."""

    region: str
    applied: bool
    epoch: int
    head_seq: int
    to_seq: int
    discarded_seqs: tuple[int, ...]
    offsets: Offsets
    """Where each partition stands afterwards."""
    drift: tuple[str, ...]
    removed: Removed | None = None

    @property
    def kind(self) -> str:
        """A rewind removes what was published, a reset to the head nothing."""
        return "rewind" if self.removed else "reset"

    @property
    def read_again(self) -> Offsets:
        """Offsets by which each partition goes back; none where a reset tells again what it did."""
        before = self.removed.offsets if self.removed else {}
        return {at: before[at] - to for at, to in sorted(self.offsets.items()) if at in before}


def reset_lines(report: ResetReport, into: str) -> Iterator[str]:
    """What it did, or would do, a line each, for terminals and logs; `into` names the tables."""
    was = report.epoch
    if report.applied:
        yield f"  epoch       {was}; every process of an earlier epoch is fenced"
    else:
        yield f"  epoch       {was} -> {was + 1}; every process of epoch {was} would be fenced"
    if not report.discarded_seqs:
        yield "  discarded   nothing: no batch is unpublished"
    for seq in report.discarded_seqs:
        yield f"  discarded   batch {seq}, which is not published, and its staging"
    yield from _head_lines(report, into)
    yield from _mirror_lines(report)


def _head_lines(report: ResetReport, into: str) -> Iterator[str]:
    if (back := report.removed) is None or not back.batches:
        yield f"  head        batch {report.head_seq} stays; no row of {into} is removed"
        return
    to_seq = report.to_seq or "0, the initial state"
    batches = f"{amount(back.batches, 'batch')} {'is' if back.batches == 1 else 'are'} removed"
    yield f"  head        batch {report.head_seq} -> {to_seq}; {batches}"
    dead_letters = amount(back.dead_letters, "dead letter")
    yield f"  removed     {amount(back.rows, 'row')} of {into}, {dead_letters}"
    if back.replays:
        yield f"  taken back  {amount(back.replays, 'replay')}: dead letters again"
    yield from (f"  lost        {fault}" for fault in back.lost)


def _mirror_lines(report: ResetReport) -> Iterator[str]:
    for difference in report.drift:
        yield f"  Kafka       {'differed' if report.applied else 'differs'}: {difference}"
    if report.removed:
        by = f", by {sum(report.read_again.values())} in all" if report.read_again else ""
        yield f"  Kafka       the group's offsets go back with the ledger's{by}"
    elif not report.drift:
        yield "  Kafka       nothing: the group's offsets equal the ledger's"


def dry_run(region: Region) -> tuple[MirrorSeen, ResetReport]:
    """What a reset to the head would do, and the mirror as it is now.

    Raises:
        Refused: the region never opened; or its mirror would be refused, see `refuse_other_output`.
    """
    state = region.state()
    checkpoint = region.ledger.merged_checkpoint(region.name)
    refuse_other_output(checkpoint, region.group.output)
    seen = mirror_seen(region, checkpoint.offsets)
    return seen, ResetReport(
        region=region.name,
        applied=False,
        epoch=state.epoch,
        head_seq=state.head_seq,
        to_seq=state.head_seq,
        discarded_seqs=tuple(region.ledger.unpublished_seqs(region.name)),
        offsets=checkpoint.offsets,
        drift=seen.drift,
    )


def finished_report(region: Region, request_id: str) -> ResetReport | None:
    """What this request has done, if the region still stands where that put it; else None.

    For a task that died between its reset and its answer. Nothing is changed: without a newer
    epoch nobody can have worked in the region, so a second reset would find nothing to do.
    """
    done = region.ledger.finished_reset(region.name, request_id)
    if done is None or not done.stands:
        return None
    log.info("%s was carried out before (%s): nothing is changed now", request_id, done)
    retire(region.ledger.engine, region.name)
    back = None
    if done.batches:
        back = Removed(done.batches, done.rows, done.dead_letters, offsets={}, margins={})
    return ResetReport(
        region=region.name,
        applied=True,
        epoch=done.epoch,
        head_seq=done.from_seq,
        to_seq=done.to_seq,
        discarded_seqs=tuple(done.discarded_seqs),
        offsets=region.ledger.merged_checkpoint(region.name, done.to_seq).offsets,
        drift=(),
        removed=back,
    )


def completed(region: Region, report: ResetReport, settled: Settled) -> ResetReport:
    """Old staging is dropped; the report of what was done."""
    retire(region.ledger.engine, region.name)
    return replace(report, applied=True, epoch=settled.epoch, discarded_seqs=settled.discarded_seqs)


def rewind_preview(region: Region, to_seq: int) -> ResetReport:
    """What a rewind to the checkpoint would do, for a reader: no record is read from Kafka.

    So what Kafka still holds of them is not known; and the role need not have the right to delete.

    Raises:
        Refused: it can't be undone or read again, or other rows are there than were published.
    """
    return _look(region, to_seq, (), deletes=False).report({})


def rewind_region(
    region: Region,
    to_seq: int,
    order: Order | None,
    *,
    overrides: Sequence[str],
    request_id: str | None,
    approved: Approved | None,
    tell: Tell,
) -> ResetReport:
    """What was published after the checkpoint is removed, or the report says what would be.

    Raises:
        Superseded: another open or reset came between; nothing was removed.
        Refused: it can't be undone or read again, or other rows are there than were published.
    """
    looked = _look(region, to_seq, overrides, deletes=True)
    found = held(region, looked.plan, tell)
    if ACCEPT_DATA_LOSS not in overrides:
        refuse_losses(region.name, found)
    report = looked.report(found)
    if order is None:
        return report
    request = RewindRequest(
        who=order.who,
        why=order.why,
        to_seq=to_seq,
        facts=looked.facts,
        epoch=looked.epoch,
        targets=region.pipeline.tables,
        mirrored=looked.mirrored,
        gone=topics_gone(region, looked.plan.places),
        overrides=tuple(overrides),
        request_id=request_id,
        sent_to=region.pipeline.sent_to,
        approved=approved,
    )
    settled = rewind(region.ledger, region.group, looked.rows, region.name, request)
    return completed(region, report, settled)


@dataclass(frozen=True, slots=True)
class _Looked:
    """What a rewind would do, as it was found when nobody was fenced yet."""

    epoch: int
    facts: Facts
    mirrored: Mirrored
    plan: RewindPlan
    rows: RowsOfTargets
    counted: Rows
    to_head: ResetReport
    """What a reset to the head would do."""

    def report(self, found: Mapping[TopicPartition, Held]) -> ResetReport:
        """`found` is what Kafka still holds."""
        plan = self.plan
        removed = _removed(plan, self.counted, self.facts, found)
        return replace(self.to_head, to_seq=plan.to_seq, offsets=plan.offsets, removed=removed)


def _look(region: Region, to_seq: int, overrides: Sequence[str], *, deletes: bool) -> _Looked:
    """Refuse what is refused before Kafka's records are counted."""
    state = region.state()
    facts = _facts(region)
    (seen, to_head), plan = dry_run(region), region.ledger.rewind_plan(region.name, to_seq)
    refuse_other_targets(state, region.pipeline.tables)
    plan.refuse(state, facts, region.pipeline.sent_to, overrides)
    _refuse_other_table(region, state)
    rows = RowsOfTargets(region.name, region.targets, deletes=deletes)
    with autocommit(region.ledger.engine) as cursor:
        counted = rows.count_rows(cursor, to_seq)
    # If a batch was published during the count, the second transaction judges.
    if ACCEPT_CHANGES not in overrides and region.state().head_seq == state.head_seq:
        removal = Removal(counted, plan.dead_letters, plan.replays)
        refuse_other_removal(region.name, plan.published, removal)
    return _Looked(
        epoch=state.epoch,
        facts=facts,
        mirrored=seen.mirrored,
        plan=plan,
        rows=rows,
        counted=counted,
        to_head=to_head,
    )


def _facts(region: Region) -> Facts:
    known = region.known_partitions()
    facts = facts_left(region.broker, {partition.topic for partition in known})
    return replace(facts, unsubscribed=unsubscribed(region, known))


def _refuse_other_table(region: Region, state: RegionState) -> None:
    for name, table in region.pipeline.tables.items():
        found = region.ledger.target_oid(table)
        oid = state.targets[name].oid if name in state.targets else None
        if found is not None and oid is not None and found != oid:
            raise RewindIntoOtherTable(
                region=region.name, table=table, published_oid=oid, oid=found
            )


def _removed(
    plan: RewindPlan, rows: Rows, facts: Facts, found: Mapping[TopicPartition, Held]
) -> Removed:
    unread = (
        f"{span}, {records} records: the pipeline no longer reads the topic"
        for span, records in plan.left(facts.unsubscribed).items()
    )
    return Removed(
        batches=plan.batches,
        rows=sum(rows.values()),
        dead_letters=plan.dead_letters,
        offsets={tp: place.next_offset for tp, place in plan.places.items()},
        margins=plan.margins(facts),
        lost=(*unread, *(fault for one in found.values() for fault in one.faults)),
        seconds={tp: one.seconds for tp, one in found.items()},
        replays=plan.replays,
        by_target=rows,
    )


def reset_region(
    pipeline: Pipeline,
    connections: Connections,
    order: Order | None,
    *,
    run_id: str | None = None,
    to: Destination = None,
    overrides: Sequence[str] = (),
    request_id: str | None = None,
    is_cancelled: bool = False,
    approved: Approved | None = None,
    tell: Tell = log.info,
) -> ResetReport:
    """Everyone is fenced, nothing is unpublished, Kafka equals the ledger; or what that would do.

    A dry run (no order) writes nothing to Postgres or Kafka. With run_id it resets to the head, and
    only if that run's epoch still holds the region. `to` rewinds: what was published after it is
    removed. `overrides` of a rewind are kept with it: accept_changes removes what is there, though
    it is not what the ledger published; accept_data_loss goes on though Kafka no longer gives all
    records again. Under one request_id a region is reset once; while no other epoch follows, asking
    again tells what that did. The reset of a run that a person has cancelled is not counted among
    those of failed ones. With `approved` it goes from that state of the region to that checkpoint,
    or not at all.

    Raises:
        Superseded: another epoch holds the region, the ledger calls the run closed, or the region
            is not where the approved reset begins; nothing was done.
        Refused: there is no such checkpoint, or Kafka no longer holds what would be read again; or
            the request was done before, and other epochs followed.
    """
    with traced_run("reset", pipeline.region, run_id), region_of(pipeline, connections) as region:
        if order and request_id and (report := finished_report(region, request_id)):
            return report
        if to is not None:
            seq = seq_of(region, to)
            return rewind_region(
                region,
                seq,
                order,
                overrides=overrides,
                request_id=request_id,
                approved=approved,
                tell=tell,
            )
        return _reset_to_head(
            region,
            order,
            run_id=run_id,
            request_id=request_id,
            is_cancelled=is_cancelled,
            approved=approved,
        )


def _reset_to_head(
    region: Region,
    order: Order | None,
    *,
    run_id: str | None,
    request_id: str | None,
    is_cancelled: bool,
    approved: Approved | None,
) -> ResetReport:
    seen, report = dry_run(region)
    if order is None:
        return report
    request = ResetRequest(
        who=order.who,
        why=order.why,
        run_id=run_id,
        epoch=_epoch_of(region, run_id),
        mirrored=seen.mirrored,
        gone=topics_gone(region, report.offsets),
        request_id=request_id,
        is_cancelled=is_cancelled,
        approved=approved,
    )
    try:
        settled = _settled(region, request)
    except Fenced as error:
        raise ResetOvertaken(cause=str(error)) from error
    region.ledger.finish_reset(region.name, settled.epoch)
    return completed(region, report, settled)


def _epoch_of(region: Region, run_id: str | None) -> int | None:
    """The epoch of the run that is reset; None for a reset by hand."""
    if not run_id:
        return None
    if (run := region.ledger.run_of(region.name, run_id)) is None:
        raise ResetOfNoRun(region=region.name, run_id=run_id)
    if run.state == "closed":
        raise ResetOfClosedRun(region=region.name, run_id=run_id)
    return run.epoch


def _settled(region: Region, request: ResetRequest) -> Settled:
    """Settle; or where this run's reset has been decided and died before its mirror, mirror."""
    decided = region.ledger.unfinished_reset(region.name, request.run_id)
    if decided is None:
        return settle(region.ledger, region.group, region.name, request)
    mirror(region.ledger, region.group, region.name, decided, gone=request.gone)
    return Settled(decided)
