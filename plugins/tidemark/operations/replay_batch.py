"""A replay of one batch from outside: its spans are read anew, and its rows replaced."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidemark.errors import TargetRefused
from tidemark.ledger.actions import Order
from tidemark.ledger.deciding import refuse_again
from tidemark.ledger.looks import Looks, PublishedSpan
from tidemark.model.batch import Contribution
from tidemark.model.facts import check_topic_ids
from tidemark.operations.drain import ExecutorOf
from tidemark.operations.errors import ReplayLacksRecords, ReplayOfCompacted, ReplayOfSent
from tidemark.operations.region import Connections, Region, facts_left, region_of
from tidemark.operations.replay_request import refusal
from tidemark.operations.replaying import refuse_upserts, replaying
from tidemark.operations.retained import missing
from tidemark.postgres.transaction import autocommit
from tidemark.protocol.again import plan_again, publish_again
from tidemark.settings.pipeline import Pipeline
from tidemark.staging.again import AgainMover, refuse_referred
from tidemark.staging.target import Target


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What the replay of a batch did, or in a dry run (applied false) would do."""

    region: str
    applied: bool
    epoch: int
    seq: int
    spans: int
    records: int
    """That are read anew."""
    rows_before: int
    """Of all targets; they go."""
    dead_letters_before: int
    """They go too, but those among them that a replay has made rows of."""
    rows: int | None = None
    """That came in their place; None in a dry run."""
    dead_letters: int | None = None
    refused: str | None = None
    """Of a dry run: why a replay would be refused now."""


def replay_batch(
    pipeline: Pipeline,
    connections: Connections,
    seq: int,
    order: Order | None,
    executor_of: ExecutorOf,
) -> BatchReport:
    """The batch's rows are those that its records make now; or the report says what would be read.

    If it crashes: the batch is as it was, or replaced whole.

    Raises:
        Refused: a target is upserted, the region is not at rest, Kafka no longer holds the records,
            or not exactly what was published is there.
        DataLost: a topic was made anew meanwhile; nothing was changed.
        Fenced, Superseded: another open or a reset came; nothing was changed.
        TargetRefused: a constraint of the target refuses a row, or keeps one; nothing was changed.
    """
    refuse_upserts(pipeline, "batch")
    if pipeline.sending:
        raise ReplayOfSent(region=pipeline.region, output=pipeline.sent_to)
    with region_of(pipeline, connections) as found:
        region = found.with_kept_columns()
        report, spans = _looked(region, seq)
        if order is None:
            return replace(report, refused=_refusal(region, connections, seq))
        with replaying(region, connections, order, f"batch {seq}", executor_of) as replay:
            batch = plan_again(region.ledger, region.name, replay.epoch, seq)
            staged = replay.staged(batch)
            _refuse_shrunk(region.name, report, staged)
            _refuse_other_log(region, seq, spans, staged)
            done = publish_again(region.ledger, AgainMover(replay.movers), batch, staged)
        return replace(
            report,
            applied=True,
            epoch=replay.epoch,
            rows=done.rows,
            dead_letters=done.dead_letters,
        )


def _looked(region: Region, seq: int) -> tuple[BatchReport, list[PublishedSpan]]:
    """What a replay would read and replace, with the spans as they were read at first.

    Raises:
        Refused: there is no such batch, or its records can't be read again.
    """
    state, looks = region.state(), Looks(region.ledger.engine)
    with autocommit(region.ledger.engine) as cursor:
        refuse_again(cursor, region.name, seq)
    spans = looks.published_spans(region.name, seq)
    facts = facts_left(region.broker, {one.span.topic for one in spans})
    if lost := tuple(missing(spans, facts)):
        raise ReplayLacksRecords(region=region.name, seq=seq, faults=lost)
    [published] = [one for one in looks.checkpoints(region.name) if one.seq == seq]
    report = BatchReport(
        region.name,
        False,
        state.epoch,
        seq,
        len(spans),
        published.records,
        published.rows,
        published.dead_letters,
    )
    return report, spans


def _refusal(region: Region, connections: Connections, seq: int) -> str | None:
    """See `refusal`; rows that refer to the batch's may be another reason."""
    if found := refusal(region, connections):
        return found
    try:
        with autocommit(region.ledger.engine) as cursor:
            for table in region.pipeline.tables.values():
                refuse_referred(cursor, Target.parse(table), seq)
    except TargetRefused as error:
        return str(error)
    return None


def _refuse_shrunk(region: str, report: BatchReport, staged: Contribution) -> None:
    found = sum(read.records for read in staged.reads)
    if found != report.records:
        raise ReplayOfCompacted(region=region, seq=report.seq, records=report.records, found=found)


def _refuse_other_log(
    region: Region, seq: int, spans: Sequence[PublishedSpan], staged: Contribution
) -> None:
    """Refuse as many records at the same offsets that are others.

    Raises:
        DataLost: a topic was deleted, or made anew, since it was looked at.
        Refused: a log was rewritten, by an unclean election.
    """
    topics = {one.span.topic: one.topic_id for one in spans}
    check_topic_ids(region.name, topics.items(), region.broker.topic_ids(sorted(topics)))
    ends = {one.span: (one.record_end, one.leader_epoch) for one in spans}
    if faults := tuple(
        f"{read.span}: rewritten since, its last record ends at {read.record_end} with leader epoch"
        f" {read.leader_epoch}, not at {ends[read.span][0]} with {ends[read.span][1]}"
        for read in staged.reads
        if ends[read.span] != (read.record_end, read.leader_epoch)
    ):
        raise ReplayLacksRecords(region=region.name, seq=seq, faults=faults)
