"""Where a region stands in the ledger, in Kafka and in the target: what status and group show.

With an output: what was sent to its topic, and what was not. Who is in the group is told by Kafka's
word, by the ledger's, or by both. What waits in Kafka is looked at to ring for a run, and decides
nothing else.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from tidemark.errors import InvalidSettings
from tidemark.kafka.facts import Broker, oldest_unread
from tidemark.kafka.group import Group
from tidemark.ledger.ledger import Ledger
from tidemark.ledger.queries import LedgerQueries
from tidemark.ledger.sending import sent_seqs, unsent, withheld_seqs
from tidemark.ledger.starts import NO_STARTS, Awaited, RefusedOpen, Starts, StartsLookup
from tidemark.model.facts import Facts
from tidemark.model.offsets import Offsets, TopicPartition, in_ranges
from tidemark.model.output import Topics
from tidemark.model.state import NEVER_MIRRORED, Mirrored
from tidemark.postgres.transaction import autocommit
from tidemark.protocol.ports import Output
from tidemark.runs.errors import RegionInOtherLedger
from tidemark.runs.region import Region, facts_left, unsubscribed
from tidemark.staging.catalog import find_relation
from tidemark.staging.target import Target, count_beside_ledger

if TYPE_CHECKING:
    from tidemark.kafka.description import GroupState, Holder
    from tidemark.ledger.queries import Published, ShownMember


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition: offsets are the next to read; None where it is not known."""

    topic: str
    partition: int
    ledger: int
    kafka: int | None
    end: int | None
    is_read: bool = True
    """Whether the pipeline reads its topic; one that it left stays where it stands."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Which partition it is."""
        return TopicPartition(self.topic, self.partition)

    @property
    def lag(self) -> int | None:
        """Offsets that the ledger has not passed; below 0 where the log ends before its offset."""
        return None if self.end is None else self.end - self.ledger

    @property
    def kafka_lag(self) -> int | None:
        """Offsets that the group has not passed, as Kafka's own tools tell it."""
        return None if self.end is None or self.kafka is None else self.end - self.kafka

    @property
    def drift(self) -> int | None:
        """Kafka's group offset less the ledger's: 0 at rest, below while a mirror is due."""
        return None if self.kafka is None else self.kafka - self.ledger

    @property
    def drifts(self) -> bool:
        """Whether Kafka's group offset is not the ledger's; Kafka keeps none of a topic it lost."""
        return self.end is not None and self.kafka != self.ledger


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """A target's rows, over the checkpoints that the ledger retains."""

    name: str
    """Empty if there are no others."""
    table: str
    since_seq: int
    """The oldest checkpoint whose rows are counted; 0 is the first."""
    ledger: int
    """Rows that the ledger moved there."""
    counted: int | None = None
    """Rows that are there now; None if that was not asked."""

    @property
    def drift(self) -> int | None:
        """Rows in the table less the ledger's; 0 is right."""
        return None if self.counted is None else self.counted - self.ledger


@dataclass(frozen=True, slots=True)
class RegionStatus:
    """Where a region stands."""

    region: str
    state: str
    """never opened, open, closed, failed, superseded, reset; unknown if it could not be asked."""
    epoch: int | None = None
    head_seq: int | None = None
    oldest_seq: int | None = None
    """The oldest checkpoint that can be restored; 0 while none was pruned."""
    unpublished_seq: int | None = None
    """The lowest batch that is planned and not published."""
    consecutive_resets: int | None = None
    dead_letters: int | None = None
    """That are there: those that were purged or replayed are not."""
    run_id: str | None = None
    """Of the newest run, which a reset may have followed."""
    reason: str | None = None
    """Why that run failed."""
    remarks: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    partitions: tuple[PartitionStatus, ...] = ()
    targets: tuple[TargetStatus, ...] = ()
    members: "tuple[ShownMember, ...]" = ()
    newest: "Published | None" = None
    """The newest checkpoint."""
    complete_at: datetime | None = None
    """Up to when all that a consumer could see is in the targets, or a dead letter."""
    accepted: tuple[str, ...] = ()
    """But for these, which a person accepted as lost."""
    output: "OutputStatus | None" = None
    """What was sent to the output topic; None without one, or if Kafka could not be asked."""
    run_state: str | None = None
    """How that run ended, or open: closed, failed, superseded."""
    max_consecutive_resets: int | None = None
    """After so many in a row no run opens."""
    problem: str | None = None
    """What could not be asked."""
    starts: Starts = NO_STARTS
    """What stands in the way of its next run."""

    @property
    def is_open(self) -> bool:
        """Whether a run is at work, as far as the ledger knows."""
        return self.state == "open"

    @property
    def lag(self) -> int | None:
        """Offsets over all partitions that the ledger has not passed."""
        return total(partition.lag for partition in self.partitions)

    @property
    def drifting(self) -> int | None:
        """Partitions whose offset in Kafka is not the ledger's; None if not all could be asked."""
        return None if self.problem else drifting(self.partitions)

    @property
    def short(self) -> tuple[str, ...]:
        """Partitions whose log ends before the ledger's offset."""
        return short(self.partitions)


def drifting(partitions: Iterable[PartitionStatus]) -> int:
    """How many of them have another offset in Kafka than in the ledger."""
    return sum(one.drifts for one in partitions)


def short(partitions: Iterable[PartitionStatus]) -> tuple[str, ...]:
    """Those that are read, and whose log ends before the ledger's offset."""
    return tuple(
        str(one.topic_partition) for one in partitions if one.is_read and (one.lag or 0) < 0
    )


def _partitions(region: Region) -> Iterator[PartitionStatus]:
    """Where the ledger stands in each; Kafka is asked later."""
    offsets = region.ledger.merged_checkpoint(region.name).offsets
    left = unsubscribed(region, offsets)
    for tp, offset in offsets.items():
        yield PartitionStatus(*tp, offset, None, None, is_read=tp.topic not in left)


def total(numbers: Iterable[int | None]) -> int | None:
    """Their sum; None if one is not known, or there is none."""
    known = list(numbers)
    return None if None in known or not known else sum(n for n in known if n is not None)


def in_ledger(region: Region) -> RegionStatus:
    """What the ledger says of the region."""
    ledger, queries = region.ledger, region.ledger.queries
    if not queries.ledger_is_there():
        return RegionStatus(region.name, "never opened")
    state, others = ledger.region_state(region.name), tuple(map(str, region.others()))
    starts = StartsLookup(ledger.engine).starts([region.name]).get(region.name, NO_STARTS)
    if state is None:
        return RegionStatus(region.name, "never opened", remarks=others, starts=starts)
    run = ledger.newest_run(region.name)
    published = queries.checkpoints(region.name, last=1)
    complete = queries.completeness([region.name]).get(region.name)
    return RegionStatus(
        region=region.name,
        state=run.state if run and run.epoch == state.epoch else "reset",
        epoch=state.epoch,
        head_seq=state.head_seq,
        oldest_seq=state.oldest_seq,
        unpublished_seq=min(ledger.unpublished_seqs(region.name), default=None),
        consecutive_resets=state.consecutive_resets,
        dead_letters=queries.open_dead_letters(region.name),
        run_id=run.run_id if run else None,
        reason=run.reason if run else None,
        remarks=tuple(run.remarks) if run else (),
        overrides=tuple(run.overrides) if run else (),
        partitions=tuple(_partitions(region)),
        targets=tuple(_targets(region, queries.retained_rows(region.name), state.oldest_seq)),
        members=tuple(queries.members_at(region.name, state.epoch)),
        newest=published[0] if published else None,
        complete_at=complete.complete_at if complete else None,
        accepted=tuple(complete.accepted) if complete else (),
        run_state=run.state if run else None,
        max_consecutive_resets=region.pipeline.max_consecutive_resets,
        starts=starts,
    )


def with_kafka(region: Region, partitions: Iterable[PartitionStatus]) -> list[PartitionStatus]:
    """The same partitions with the group's offsets and the ends; a topic that is gone has none.

    Raises:
        TidemarkError: Kafka can't be asked.
    """
    asked = {one.topic_partition: one for one in partitions}
    if not asked:
        return []
    ends = facts_left(region.broker, {at.topic for at in asked}).ends
    committed = region.group.committed(asked)
    return [replace(one, kafka=committed.get(at), end=ends.get(at)) for at, one in asked.items()]


def refuse_other_ledger(region: Region) -> None:
    """Compare a ledger that does not know the region with what Kafka says of it.

    A topic that is not there yet tells nothing.

    Raises:
        Refused: Kafka's group offsets are of this region, so its ledger is another one.
        TidemarkError: Kafka can't be asked.
    """
    try:
        topics = region.broker.topics(region.pipeline.kafka.topics)
        ends = region.broker.facts(topics).ends
    except InvalidSettings:
        return
    conn_id = region.pipeline.warehouse
    refuse_offsets_of(region.name, region.group, ends, region.ledger.queries, conn_id)


def refuse_offsets_of(
    region: str,
    group: Group,
    partitions: Iterable[TopicPartition],
    ledger: LedgerQueries,
    conn_id: str,
) -> None:
    """Refuse a ledger that does not know the region if the group's offsets are of that.

    A region that was dropped is known by its drop. `conn_id` leads to the ledger.

    Raises:
        Refused: they are. Unreachable: Kafka or the ledger does not answer.
    """
    marks = group.committed_metadata(partitions).values()
    own = [text for _, text in marks if text.partition("/")[0] == region]
    mirrored = max(map(Mirrored.parse, own), key=lambda one: one.epoch, default=NEVER_MIRRORED)
    if not mirrored.epoch or (ledger.ledger_is_there() and ledger.was_dropped(region)):
        return
    raise RegionInOtherLedger(
        region=region,
        group=group.group_id,
        conn_id=conn_id,
        epoch=mirrored.epoch,
        seq=mirrored.seq,
    )


def with_group(region: Region, found: RegionStatus) -> RegionStatus:
    """Mark members of a run that is over as gone if Kafka's group no longer has them.

    Raises:
        TidemarkError: Kafka can't be asked.
    """
    if found.is_open or all(one.state in ENDED for one in found.members):
        return found
    group, name = region.group.describe(), region.group.group_id
    known = members_of(group, found.members, region.name, name, is_open=False)
    states = {one.number: one.state for one in known if one.kind == "member"}
    members = (replace(one, state=states[one.number] or one.state) for one in found.members)
    return replace(found, members=tuple(members))


def brief(places: Iterable[str]) -> str:
    """Partitions that are named so, in ranges: `flights[0-3]`."""
    parts = (text.rstrip("]").rpartition("[") for text in places)
    return in_ranges(TopicPartition(topic, int(number)) for topic, _, number in parts)


def _targets(region: Region, rows: dict[str, int], since: int) -> "Iterator[TargetStatus]":
    for name, table in region.pipeline.tables.items():
        yield TargetStatus(name, table, since, rows.get(name, 0))


def counted(region: Region, target: TargetStatus) -> TargetStatus:
    """Count the rows that are in the table now; read ledger and table in one snapshot."""
    table, since = Target.parse(target.table, target.name), target.since_seq
    with autocommit(region.ledger.engine) as cursor:
        if find_relation(cursor, table.schema, table.table) is None:
            return replace(target, counted=0)
        ledger, rows = count_beside_ledger(cursor, table, region.name, since)
    return replace(target, ledger=ledger, counted=rows)


@dataclass(frozen=True, slots=True)
class OutputStatus:
    """Where the output of a region stands."""

    topics: Topics
    sent_seq: int | None
    """The newest batch in the topic; None: the group's offsets do not say it."""
    unsent_batches: int | None = None
    """Published and not sent."""
    unsent_records: int | None = None
    """What these will send."""
    withheld_seqs: tuple[int, ...] = ()
    """Batches that a person has withheld: the topic has none of their rows."""
    is_said: bool = False
    """Where the offsets do not say what was sent, the pipeline file does: by `start` where nothing
    ever was, or by a `resume_after` that is not behind what the ledger knows as sent."""


def output_status(region: Region, partitions: Iterable[PartitionStatus]) -> OutputStatus | None:
    """What was sent as Kafka tells it, and what the ledger published after it; None if it has none.

    Raises:
        TidemarkError: Kafka can't be asked.
    """
    output = region.group.output
    asked = [one.topic_partition for one in partitions]
    if output is None or not asked:
        return None
    marks = region.group.sent(asked)
    if len(marks) != 1:
        with autocommit(region.ledger.engine) as cursor:
            known = sent_seqs(cursor, region.name).read_back
        return OutputStatus(output.topics, None, is_said=_is_said(output, known))
    [sent] = marks
    with autocommit(region.ledger.engine) as cursor:
        found = unsent(cursor, region.name, region.pipeline.sent_parts, sent.seq)
        withheld = withheld_seqs(cursor, region.name)
    records = sum(one.records for one in found)
    left = sum(not one.is_withheld for one in found)
    return OutputStatus(
        topics=output.topics,
        sent_seq=sent.seq,
        unsent_batches=left,
        unsent_records=records,
        withheld_seqs=tuple(withheld),
    )


def _is_said(output: Output, sent_seq: int) -> bool:
    """Whether the file says what was sent; `sent_seq` is the newest that was read back, or 0."""
    if output.resume_after is not None:
        return output.resume_after >= sent_seq
    return output.start is not None and not sent_seq


OLDEST_SECONDS = 1.0
"""How long the oldest unread records of a region are looked for."""


@dataclass(frozen=True, slots=True)
class Unread:
    """How many offsets a region has not passed, and whether a run should come for them."""

    epoch: int
    """The region's; 0 before its first open."""
    offsets: int
    """Between the ledger's offsets and the last stable offsets."""
    is_at_rest: bool
    """It never opened, or nobody is at work in it, and its newest run did not fail."""
    ends: Offsets
    """The last stable offsets."""
    refused: RefusedOpen | None = None
    """What refused its newest open, if that took no epoch."""


def unread(ledger: Ledger, broker: Broker, region: str, topics: Sequence[str]) -> Unread:
    """What waits in these topics, or in those that a pattern matches.

    Raises:
        TidemarkError: ledger or Kafka can't be asked, or a topic does not exist.
    """
    [awaited] = StartsLookup(ledger.engine).awaited([region]).values()
    return unread_of(awaited, broker.facts(broker.topics(topics)))


def unread_of(awaited: Awaited, facts: Facts) -> Unread:
    """What waits for a region in topics with these facts."""
    waiting = sum(
        max(0, end - awaited.offsets.get(partition, facts.log_starts[partition]))
        for partition, end in facts.ends.items()
    )
    return Unread(
        epoch=awaited.epoch,
        offsets=waiting,
        is_at_rest=awaited.is_at_rest,
        ends=facts.ends,
        refused=awaited.refused,
    )


def oldest_times(
    broker: Broker, partitions: Iterable[PartitionStatus], now_ms: int
) -> dict[TopicPartition, int]:
    """Where there is a lag, the time (ms) of the first unread record, if it is known."""
    behind = {one.topic_partition: one.ledger for one in partitions if (one.lag or 0) > 0}
    return oldest_unread(
        lambda times: broker.first_since(times, OLDEST_SECONDS), behind, now_ms, OLDEST_SECONDS
    )


def oldest_age(broker: Broker, partitions: Iterable[PartitionStatus], now_ms: int) -> float | None:
    """Seconds since the oldest unread record was produced; None if there is none, or not known."""
    found = oldest_times(broker, partitions, now_ms)
    return max(0, now_ms - min(found.values())) / 1000 if found else None


GONE = "gone"
"""The state of a member that ended without a word: its run is over, and Kafka knows it no more."""

ENDED = ("done", "failed", "reset complete", GONE)
"""States of a member that is at work no more."""


@dataclass(frozen=True, slots=True)
class MemberHealth:
    """One who is in the group by Kafka's word, or in the run by the ledger's, or both."""

    kind: str
    """member of the current epoch; static: one of the region's names, held by some member of it;
    earlier: of an epoch that has passed; foreign: none of them."""
    number: int | None
    name: str | None
    state: str | None
    """What it told the ledger last, or gone; None if it is not of this epoch."""
    in_group: bool
    partitions: tuple[str, ...]
    """What Kafka says that it holds."""
    drain_ms: int | None = None
    drain_ms_max: int | None = None
    seen_at: datetime | None = None
    """When what it tells the ledger last changed."""
    seen_age_s: int | None = None
    client_id: str | None = None
    host: str | None = None
    instance_id: str | None = None

    @property
    def is_ours(self) -> bool:
        """Whether it drains what it holds."""
        return self.kind in ("member", "static")

    @property
    def label(self) -> str:
        """How it is named in a sentence."""
        if self.kind == "member":
            return f"member {self.number} ({self.name})"
        return f"{self.instance_id or self.client_id} on {(self.host or '').lstrip('/')}"


def members_of(
    group: "GroupState",
    shown: "tuple[ShownMember, ...]",
    region: str,
    group_id: str,
    *,
    is_open: bool,
) -> list[MemberHealth]:
    """Those of the ledger first, in their order, then the others that are in the group.

    `is_open` says whether their run is.
    """
    known = [(_number(holder, shown, region, group_id), holder) for holder in group.holders]
    holders = dict(known)
    return [
        *(_of_ledger(member, holders.get(member.number), is_open=is_open) for member in shown),
        *(_other(holder, region, group_id) for number, holder in known if number is None),
    ]


def _of_ledger(member: "ShownMember", holder: "Holder | None", *, is_open: bool) -> MemberHealth:
    is_as_told = is_open or holder is not None or member.state in ENDED
    return MemberHealth(
        kind="member",
        number=member.number,
        name=member.name,
        state=member.state if is_as_told else GONE,
        in_group=holder is not None,
        partitions=tuple(map(str, holder.partitions)) if holder else (),
        drain_ms=member.drain_ms,
        drain_ms_max=member.drain_ms_max,
        seen_at=member.seen_at,
        seen_age_s=int(member.age),
        client_id=holder.client_id if holder else None,
        host=holder.host if holder else None,
        instance_id=holder.instance_id if holder else None,
    )


def _number(
    holder: "Holder", shown: "tuple[ShownMember, ...]", region: str, group_id: str
) -> int | None:
    """Which member of the epoch it is.

    Kafka shows a static member's first client id for ever, so one is known by what it holds.
    """
    if holder.is_static(group_id):
        held = {*map(str, holder.partitions)}
        same = [
            m.number for m in shown if held and {*m.partitions} == held and m.state not in ENDED
        ]
        if same:
            return same[-1]
    number = holder.number(region)
    return number if number in {member.number for member in shown} else None


def _other(holder: "Holder", region: str, group_id: str) -> MemberHealth:
    number = holder.number(region)
    kind = "foreign" if number is None else "earlier"
    return MemberHealth(
        kind="static" if holder.is_static(group_id) else kind,
        number=number,
        name=None,
        state=None,
        in_group=True,
        partitions=tuple(map(str, holder.partitions)),
        client_id=holder.client_id,
        host=holder.host,
        instance_id=holder.instance_id,
    )
