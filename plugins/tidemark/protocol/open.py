"""Opening a run: what stops it, what only an override passes, and what it writes.

1 open        Kafka's facts first, then the ledger transaction of settle.py, in which this is
              `check` and `write`; then the mirror

A partition that lost something ends its history; a new one begins where it can. What an open finds
that does not stop it, and that a person should know, is a remark.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar
from uuid import UUID, uuid4

from tidemark.model.corruption import accepted_ranges, ahead, refuse_ranges_not_due
from tidemark.model.dead_letters import Limits
from tidemark.model.deletions import DELETIONS_KEPT, WaitingDeletions, waiting
from tidemark.model.errors import DeletionsMayBeGone
from tidemark.model.facts import (
    Facts,
    SeenAtOpen,
    backlog,
    refuse_left_topics_gone,
    refuse_not_held,
    refuse_other_cluster,
    refuse_other_topics,
    stuck_since,
    unknown_partitions,
)
from tidemark.model.offsets import Offsets, Span, TopicPartition, in_ranges
from tidemark.model.overrides import ACCEPT_CHANGES, ACCEPT_DATA_LOSS
from tidemark.model.plan import Bounds
from tidemark.model.state import NEVER_MIRRORED, Mirrored, NewRun, Partition, RegionState
from tidemark.protocol.changes import changes, refuse_other_targets
from tidemark.protocol.errors import (
    Change,
    ChangedSinceCheckpoint,
    OpenOvertaken,
    RunsResetTooOften,
)
from tidemark.protocol.ports import LedgerRegion, Settling

UNKNOWN = "unknown"
"""Who gave an override, where nobody says."""


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """An open: a run with its bounds, and the Kafka facts seen just before."""

    run_id: str
    bounds: Bounds
    facts: Facts
    epoch: int
    """The region's, read before Kafka was asked: facts older than another open decide nothing."""
    targets: Mapping[str, str]
    """Tables that the rows go to, by name; a region with a checkpoint keeps them."""
    overrides: tuple[str, ...] = ()
    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    """What the region's rows will be made with."""
    used_up: Mapping[str, int] = field(default_factory=dict)
    """Overrides that an earlier open of the same run was given, and are not among these; with the
    epoch that used each."""
    mirrored: Mirrored = NEVER_MIRRORED
    """What the group's offsets were last written under: the new epoch and seqs lie above it."""
    added: frozenset[str] = frozenset()
    """Settings of the fingerprint that the checkpoint lacks, and that a person lets an open add."""
    fit_tables: Callable[[Any], object] | None = None
    """Gives the targets these columns in the open's transaction, or refuses; None where they have
    no new ones, or only the transform knows them."""
    remarks: tuple[str, ...] = ()
    """What was found before, and stops nothing."""
    who: str = UNKNOWN
    """Who gave the overrides."""
    max_consecutive_resets: int | None = None
    limits: Limits = field(default_factory=Limits)
    """Of the dead letters of each of its batches."""
    asked_at: datetime | None = None
    """Just before Kafka was asked, by the database's clock."""
    uuid: UUID = field(default_factory=uuid4)

    name: ClassVar[str] = "open"
    gone: ClassVar[frozenset[str]] = frozenset()
    """The mirror leaves no topic out: an open stops where Kafka lost one, or ends its histories."""

    def check(self, tx: LedgerRegion) -> None:
        """Stop where a person must decide.

        Raises:
            Superseded: another open or a reset came after Kafka was asked.
            Refused: the runs before were reset too often, or the configuration has changed.
            DataLost: Kafka no longer holds what the ledger needs.
        """
        known = self._partitions_read(tx)
        self._check_epoch(tx.state)
        self._check_resets(tx.state)
        refuse_other_targets(tx.state, self.targets)
        self._check_changes(tx)
        if ACCEPT_DATA_LOSS not in self.overrides:
            self._check_losses(tx, known)
        next_offsets = (self.facts.starts or self.facts.log_starts) | _next_offsets(known)
        refuse_ranges_not_due(tx.state.region, self.skipped_ranges, next_offsets, self.facts.ends)

    def write(self, tx: Settling, epoch: int, discarded: tuple[int, ...]) -> None:
        """Write the run under its new epoch.

        Where a loss is accepted, the histories that it broke end first. Then: the initial offsets
        of new partitions; what rows are made with from now on, with the columns that the targets
        lack for it; the run and its target offsets.
        """
        stuck = stuck_since(self.facts, tx.log_ends())
        is_first = not tx.partitions()
        found = self._waiting(tx, _next_offsets(self._partitions_read(tx)))
        remarks = [*self._to_tell(tx, stuck, found), *self._end_broken(tx, epoch)]
        known = tx.partitions()
        initial = self._initial_offsets(known, is_first=is_first)
        remarks += () if is_first else _deleted_before_first_read(initial)
        tx.write_initial_offsets(initial, self.facts.topic_ids)
        tx.write_made_with(self.fingerprint, self.facts.cluster_id, self.targets)
        if self.fit_tables:
            self.fit_tables(tx)
        stand = _next_offsets(known) | initial
        accepted = frozenset(one.span.topic_partition for one in found if self._accepts(one))
        left = self._deletions_seconds(self._waiting(tx, stand))
        tx.write_run(epoch, self._new_run(self._backlog(stand, self.facts.ends), remarks, left))
        tx.write_target_offsets(epoch, self.facts, SeenAtOpen(stuck, accepted))

    def _to_tell(
        self,
        tx: Settling,
        stuck: Mapping[TopicPartition, datetime],
        found: Iterable[WaitingDeletions],
    ) -> Iterator[str]:
        """What does not stop the open, and a person should know."""
        yield from self.spent()
        yield from self.remarks
        yield from _restored(tx.state, self.mirrored)
        yield from (f"accepted: {one}" for one in self._changes(tx))
        yield from _hanging(self.facts, stuck)
        yield from (
            _waited_for(one, is_accepted=self._accepts(one)) for one in found if one.is_long
        )
        yield from _deletions_unknown(self.facts)

    def _end_broken(self, tx: Settling, epoch: int) -> list[str]:
        """End the histories that an accepted loss broke; name each."""
        if ACCEPT_DATA_LOSS not in self.overrides:
            return []
        ended = _end_lost(tx, epoch, self._partitions_read(tx), self.facts)
        return [*ended, *_end_left(tx, epoch, self.facts)]

    def _initial_offsets(self, known: Collection[TopicPartition], *, is_first: bool) -> Offsets:
        """Where new partitions begin: those that appear later at their beginning, always."""
        positions = self.facts.starts if is_first else self.facts.log_starts
        return {tp: positions[tp] for tp in unknown_partitions(known, self.facts)}

    def _new_run(self, backlog: int, remarks: Iterable[str], left: float | None) -> NewRun:
        return NewRun(
            run_id=self.run_id,
            uuid=self.uuid,
            bounds=self.bounds,
            limits=self.limits,
            overrides=self.overrides,
            who=self.who,
            backlog=backlog,
            remarks=tuple(remarks),
            asked_at=self.asked_at,
            deletions_seconds=left,
        )

    @property
    def skipped_ranges(self) -> tuple[Span, ...]:
        """The corrupt ranges that this run passes."""
        return accepted_ranges(self.overrides)

    def spent(self) -> Iterator[str]:
        """Each override that this open would have had if an earlier one had not."""
        for name, epoch in sorted(self.used_up.items()):
            yield (
                f"{name} was used up by epoch {epoch} of run {self.run_id}: a cleared run does"
                " not get it again. To give it once more, start a new run"
            )

    def _partitions_read(self, tx: LedgerRegion) -> dict[TopicPartition, Partition]:
        """The known partitions of the topics that this run reads."""
        left = self.facts.unsubscribed
        return {tp: p for tp, p in tx.partitions().items() if tp.topic not in left}

    def _check_epoch(self, state: RegionState) -> None:
        if state.epoch != self.epoch:
            raise OpenOvertaken(
                region=state.region, run_id=self.run_id, epoch=self.epoch, now_at=state.epoch
            )

    def _check_resets(self, state: RegionState) -> None:
        most = self.max_consecutive_resets
        if most is not None and state.consecutive_resets >= most:
            raise RunsResetTooOften(
                region=state.region, resets=state.consecutive_resets, limit=most
            )

    def _check_changes(self, tx: LedgerRegion) -> None:
        found = tuple(self._changes(tx))
        if found and ACCEPT_CHANGES not in self.overrides:
            raise ChangedSinceCheckpoint(region=tx.state.region, changes=found)

    def _changes(self, tx: LedgerRegion) -> Iterator[Change]:
        return changes(tx, self.fingerprint, self.targets, self.added)

    def _check_losses(self, tx: LedgerRegion, known: Mapping[TopicPartition, Partition]) -> None:
        state, facts = tx.state, self.facts
        region = state.region
        refuse_left_topics_gone(region, facts)
        refuse_other_cluster(region, state.cluster_id, facts)
        topic_ids = ((tp.topic, partition.topic_id) for tp, partition in known.items())
        refuse_other_topics(region, topic_ids, facts.topic_ids)
        refuse_not_held(region, _never_read(known, facts) | _next_offsets(known), facts)
        waited = self._waiting(tx, _next_offsets(known))
        if overdue := tuple(one for one in waited if one.is_overdue):
            raise DeletionsMayBeGone(region=region, waiting=overdue)

    def _waiting(self, tx: LedgerRegion, stand: Offsets) -> tuple[WaitingDeletions, ...]:
        """Where deletions may wait; nowhere if no row depends on them."""
        if self.facts.deletions is None:
            return ()
        facts = self.facts
        return tuple(waiting(stand, facts.ends, facts.deletions_kept, tx.unread()))

    def _accepts(self, found: WaitingDeletions) -> bool:
        """Whether a person lets the run go on without these.

        Nobody accepts what is overdue only since the check: the plan refuses it.
        """
        return found.is_overdue and ACCEPT_DATA_LOSS in self.overrides

    def _deletions_seconds(self, found: Iterable[WaitingDeletions]) -> float | None:
        """For how long what the run reads holds all deletions; None: nobody needs it to.

        A person who accepts the loss lets the run go on, however long it takes.
        """
        if ACCEPT_DATA_LOSS in self.overrides:
            return None
        return min((one.seconds_left for one in found), default=None)

    def _backlog(self, next_offsets: Offsets, ends: Offsets) -> int:
        """Offsets that the run has to read; not those of corrupt ranges that it passes."""
        left_out = ahead(self.skipped_ranges, next_offsets)
        return backlog(next_offsets, ends) - sum(span.width for span in left_out)


def _end_lost(
    tx: Settling, epoch: int, known: Mapping[TopicPartition, Partition], facts: Facts
) -> list[str]:
    """End the history of each partition that lost something, begin a new one; name each."""
    is_other_cluster = facts.cluster_id != tx.state.cluster_id
    on: dict[TopicPartition, int] = {}
    ended, remarks = list[TopicPartition](), list[str]()
    for tp, partition in sorted(known.items()):
        is_other_log = is_other_cluster or facts.topic_ids.get(tp.topic) != partition.topic_id
        at = _where_to_go_on(tp, partition, facts, is_other_log=is_other_log)
        # A new history knows no leader epoch yet; the others stay protected (KIP-320).
        if at != partition.next_offset or is_other_log or tp in facts.rewritten:
            ended.append(tp)
            on |= {} if at is None else {tp: at}
            where = "is gone" if at is None else f"goes on at {at}"
            where = f"was rewritten and {where}" if tp in facts.rewritten else where
            remarks.append(f"accepted: {tp} {where}, the ledger stood at {partition.next_offset}")
    tx.end_histories(epoch, ended)
    tx.write_initial_offsets(on, facts.topic_ids)
    return remarks


def _end_left(tx: Settling, epoch: int, facts: Facts) -> list[str]:
    """End the histories of topics that the pipeline left and Kafka lost; name them."""
    ended = [tp for tp in tx.partitions() if tp.topic in facts.gone]
    if not ended:
        return []
    tx.end_histories(epoch, ended)
    return [f"no longer read, and gone from Kafka: {in_ranges(ended)}"]


def _where_to_go_on(
    tp: TopicPartition, partition: Partition, facts: Facts, *, is_other_log: bool
) -> int | None:
    """The next offset that Kafka can give; None where the partition is gone."""
    if tp not in facts.ends:
        return None
    start, end = facts.log_starts[tp], facts.ends[tp]
    return start if is_other_log else min(max(partition.next_offset, start), end)


def _restored(state: RegionState, seen: Mirrored) -> Iterator[str]:
    """A ledger that is older than its mirror in Kafka."""
    if seen.epoch > state.epoch or seen.seq > state.head_seq:
        yield (
            f"the ledger is older than its mirror: it is at epoch {state.epoch}, batch"
            f" {state.head_seq}, Kafka's offsets are of epoch {seen.epoch}, batch {seen.seq}."
            " Was Postgres restored from a backup, or was another region dropped that had this"
            " group? The run goes on from the ledger"
        )


def _deleted_before_first_read(initial: Offsets) -> Iterator[str]:
    """Each new partition of which retention has taken something before its first read."""
    for tp, offset in sorted(initial.items()):
        if offset:
            yield (
                f"{Span(*tp, 0, offset)}: retention took it before anybody read it. The partition"
                f" is new to the region and begins at {offset}"
            )


def _hanging(facts: Facts, stuck: Mapping[TopicPartition, datetime]) -> Iterator[str]:
    """Each partition that an open transaction has held since an earlier open."""
    for tp, since in sorted(stuck.items()):
        end = facts.ends[tp]
        where = f"--topic {tp.topic} --partition {tp.partition}"
        yield (
            f"{tp}: a transaction has been open at offset {end} since"
            f" {since.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC or longer; until it ends, nobody"
            f" can read the {facts.high_watermarks[tp] - end} offsets from there. If its"
            " producer hangs, end it: kafka-transactions.sh --bootstrap-server HOST:PORT"
            f" describe-producers {where} names it, abort {where} --start-offset {end} ends it"
            " (the client library can't ask for it)"
        )


def _waited_for(found: WaitingDeletions, *, is_accepted: bool) -> str:
    """Where deletions have waited long: accepted, or not too long yet."""
    if is_accepted:
        return f"accepted: {found}: a key that they deleted stays in the target"
    return (
        f"{found}. Run more often, or raise {DELETIONS_KEPT} of the topic: what waits for longer"
        " may be gone"
    )


def _deletions_unknown(facts: Facts) -> Iterator[str]:
    """Each topic of which it is not known how long it keeps deletions."""
    for topic in sorted({tp.topic for tp in facts.ends} - (facts.deletions or {}).keys()):
        if facts.deletions is not None:
            yield (
                f"topic {topic}: whether compaction took deletions before they were read is not"
                f" known, for its settings may not be asked for: grant the ACL DescribeConfigs on"
                f" it, and see that {DELETIONS_KEPT} is longer than any pause of the runs"
            )


def _never_read(known: Mapping[TopicPartition, Partition], facts: Facts) -> Offsets:
    """The beginning of each partition that a topic of the ledger got since: all of it is needed."""
    topics = {tp.topic for tp in known}
    return {tp: 0 for tp in unknown_partitions(known, facts) if tp.topic in topics}


def _next_offsets(known: Mapping[TopicPartition, Partition]) -> Offsets:
    return {tp: partition.next_offset for tp, partition in known.items()}
