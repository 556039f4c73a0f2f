"""Opening a run: what stops it, what only an override passes, and what it writes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar
from uuid import UUID, uuid4

from tidemark.errors import Refused, Superseded
from tidemark.model.bounds import Bounds
from tidemark.model.corruption import accepted_ranges, ahead, check_accepted
from tidemark.model.dead_letters import Limits
from tidemark.model.facts import (
    Facts,
    backlog,
    check_cluster,
    check_left,
    check_retained,
    check_topic_ids,
    stuck_since,
    unknown_partitions,
)
from tidemark.model.offsets import Span, TopicPartition
from tidemark.model.state import NEVER_MIRRORED, Mirrored, Partition, RegionState
from tidemark.protocol.ports import KnownRegion, Settling

ACCEPT_DATA_LOSS = "accept_data_loss"
"""The override that goes on where Kafka lost what the ledger needs."""

ACCEPT_CHANGES = "accept_changes"
"""The override that goes on with another configuration than the checkpoint was made with."""


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """An open: a run with its bounds, and the Kafka facts seen just before."""

    run_id: str
    bounds: Bounds
    facts: Facts
    epoch: int
    """The region's, read before Kafka was asked: facts older than another open decide nothing."""
    target: str
    """Table that the rows go to; a region with a checkpoint keeps it."""
    overrides: tuple[str, ...] = ()
    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    """What the region's rows will be made with."""
    used_up: Mapping[str, int] = field(default_factory=dict)
    """Overrides that an earlier open of the same run was given, and are not among these; with the
    epoch that used each."""
    mirrored: Mirrored = NEVER_MIRRORED
    max_consecutive_resets: int | None = None
    limits: Limits = field(default_factory=Limits)
    """Of the dead letters of each of its batches."""
    uuid: UUID = field(default_factory=uuid4)

    gone: ClassVar[frozenset[str]] = frozenset()
    kind: ClassVar[str] = "opening"
    name: ClassVar[str] = "open"

    def check(self, tx: KnownRegion) -> None:
        """Stop where a person must decide.

        Raises:
            Superseded: another open or a reset came after Kafka was asked.
            Refused: the runs before were reset too often, or the configuration has changed.
            DataLost: Kafka no longer holds what the ledger needs.
        """
        self._check_epoch(tx.state)
        self._check_resets(tx.state)
        self._check_target(tx.state)
        self._check_changes(tx)
        if ACCEPT_DATA_LOSS not in self.overrides:
            known, region = self._read(tx), tx.state.region
            check_left(region, self.facts)
            check_cluster(region, tx.state.cluster_id, self.facts)
            topic_ids = ((tp.topic, partition.topic_id) for tp, partition in known.items())
            check_topic_ids(region, topic_ids, self.facts)
            check_retained(region, {tp: p.next_offset for tp, p in known.items()}, self.facts)
        known_offsets = {tp: p.next_offset for tp, p in self._read(tx).items()}
        next_offsets = (self.facts.starts or self.facts.log_starts) | known_offsets
        check_accepted(tx.state.region, self.left_out, next_offsets, self.facts.ends)

    def write(self, tx: Settling, epoch: int, discarded: int | None) -> None:
        """Write initial offsets, the run and its target offsets."""
        stuck = stuck_since(self.facts, tx.log_ends())
        remarks = [
            *self.spent(),
            *self._restored(tx.state),
            *(f"accepted: {change}" for change in self._changes(tx)),
            *self._hanging(stuck),
        ]
        is_first = not tx.partitions()
        if ACCEPT_DATA_LOSS in self.overrides:
            remarks += [*self._go_on(tx, epoch), *self._leave(tx, epoch)]
        known = tx.partitions()
        # Partitions that appear later start at the beginning, whatever the start position was.
        positions = self.facts.starts if is_first else self.facts.log_starts
        initial = {tp: positions[tp] for tp in unknown_partitions(known, self.facts)}
        tx.write_initial_offsets(initial, self.facts.topic_ids)
        tx.write_made_with(self.fingerprint, self.facts.cluster_id, self.target)
        next_offsets = {tp: partition.next_offset for tp, partition in known.items()} | initial
        passed = sum(span.width for span in ahead(self.left_out, next_offsets))
        left = backlog(next_offsets, self.facts.ends) - passed
        tx.write_run(epoch, self, left, remarks)
        tx.write_targets(epoch, self.facts, stuck)

    @property
    def left_out(self) -> tuple[Span, ...]:
        """The corrupt ranges that this run passes."""
        return accepted_ranges(self.overrides)

    def spent(self) -> Iterator[str]:
        """Each override that this open would have had if an earlier one had not."""
        for name, epoch in sorted(self.used_up.items()):
            yield (
                f"{name} was used up by epoch {epoch} of run {self.run_id}: a cleared run does"
                " not get it again. To give it once more, start a new run"
            )

    def _read(self, tx: KnownRegion) -> dict[TopicPartition, Partition]:
        """The known partitions of the topics that this run reads."""
        left = self.facts.unsubscribed
        return {tp: p for tp, p in tx.partitions().items() if tp.topic not in left}

    def _check_epoch(self, state: RegionState) -> None:
        if state.epoch != self.epoch:
            raise Superseded(
                f"region {state.region}: epoch {self.epoch} passed while run {self.run_id} was"
                f" opened, the region is now at {state.epoch}: another open or a reset took over"
            )

    def _check_resets(self, state: RegionState) -> None:
        most = self.max_consecutive_resets
        if most is not None and state.consecutive_resets >= most:
            raise Refused(
                f"region {state.region}: {state.consecutive_resets} runs in a row were reset and"
                f" published nothing, max_consecutive_resets is {most}. Find the cause in the log"
                f" of the last run; then `tidemark reset {state.region} --apply` clears the count"
            )

    def _check_target(self, state: RegionState) -> None:
        if state.head_seq and state.target != self.target:
            raise Refused(
                f"region {state.region} has target {state.target}, the pipeline says {self.target}."
                " A region with a checkpoint keeps its target: use a new region for another one"
            )

    def _check_changes(self, tx: KnownRegion) -> None:
        changes = [*self._changes(tx)]
        if changes and ACCEPT_CHANGES not in self.overrides:
            raise Refused(
                f"region {tx.state.region}: {'; '.join(changes)}. The checkpoint was made with the"
                " old values. Restore them, use a new region, or start a run with --accept-changes:"
                " new rows are made with the new values, old rows stay as they are"
            )

    def _changes(self, tx: KnownRegion) -> Iterator[str]:
        """Each setting that differs from the checkpoint's, and a target that is another table."""
        yield from changed_fields(tx.state, self.fingerprint)
        known, found = tx.state.target_oid, tx.target_oid(self.target)
        if tx.state.head_seq and known is not None and found != known:
            now = "is not there" if found is None else f"has {found}"
            yield (
                f"target.table {self.target} had oid {known} and {now}: it was renamed, dropped or"
                " made anew, or the database was restored from a dump, which gives tables new oids"
            )

    def _restored(self, state: RegionState) -> Iterator[str]:
        seen = self.mirrored
        if seen.epoch > state.epoch or seen.seq > state.head_seq:
            yield (
                f"the ledger is older than its mirror: it is at epoch {state.epoch}, batch"
                f" {state.head_seq}, Kafka's offsets are of epoch {seen.epoch}, batch {seen.seq}."
                " Was Postgres restored from a backup? The run goes on from the ledger"
            )

    def _hanging(self, stuck: Mapping[TopicPartition, datetime]) -> Iterator[str]:
        for tp, since in sorted(stuck.items()):
            end = self.facts.ends[tp]
            where = f"--topic {tp.topic} --partition {tp.partition}"
            yield (
                f"{tp}: a transaction has been open at offset {end} since"
                f" {since.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC or longer; until it ends, nobody"
                f" can read the {self.facts.high_watermarks[tp] - end} offsets from there. If its"
                " producer hangs, end it: kafka-transactions.sh --bootstrap-server HOST:PORT"
                f" describe-producers {where} names it, abort {where} --start-offset {end} ends it"
                " (the client library can't ask for it)"
            )

    def _leave(self, tx: Settling, epoch: int) -> Iterator[str]:
        """End the histories of topics that the pipeline left and Kafka lost."""
        ended = [tp for tp in tx.partitions() if tp.topic in self.facts.gone]
        if ended:
            tx.end_histories(epoch, ended)
            yield f"no longer read, and gone from Kafka: {', '.join(map(str, sorted(ended)))}"

    def _go_on(self, tx: Settling, epoch: int) -> Iterator[str]:
        """End the history of each partition that lost something; a new one begins where it can."""
        known, facts = self._read(tx), self.facts
        is_other_cluster = facts.cluster_id != tx.state.cluster_id
        on: dict[TopicPartition, int] = {}
        ended = []
        for tp, partition in sorted(known.items()):
            is_other_log = is_other_cluster or facts.topic_ids.get(tp.topic) != partition.topic_id
            at = _where_to_go_on(tp, partition, facts, is_other_log=is_other_log)
            # A new history knows no leader epoch yet; the others stay protected (KIP-320).
            if at != partition.next_offset or is_other_log or tp in facts.rewritten:
                ended.append(tp)
                on |= {} if at is None else {tp: at}
                where = "is gone" if at is None else f"goes on at {at}"
                where = f"was rewritten and {where}" if tp in facts.rewritten else where
                yield f"accepted: {tp} {where}, the ledger stood at {partition.next_offset}"
        tx.end_histories(epoch, ended)
        tx.write_initial_offsets(on, facts.topic_ids)


def changed_fields(state: RegionState, now: Mapping[str, Any]) -> Iterator[str]:
    """Each field of the fingerprint that differs, with both values; none without a checkpoint."""
    known = state.fingerprint
    if not known or not now or not state.head_seq:
        return
    for name in sorted({*known, *now}):
        if known.get(name) != now.get(name):
            yield f"{name} was {known.get(name)!r} and is {now.get(name)!r}"


def _where_to_go_on(
    tp: TopicPartition, partition: Partition, facts: Facts, *, is_other_log: bool
) -> int | None:
    """The next offset that Kafka can give; None where the partition is gone."""
    if tp not in facts.ends:
        return None
    start, end = facts.log_starts[tp], facts.ends[tp]
    return start if is_other_log else min(max(partition.next_offset, start), end)
