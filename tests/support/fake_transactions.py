"""Transactions on the tables of a ledger in memory, as the steps ask for them.

A guard of the real ledger that is named in `without` is taken out.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.fake_tables import (
    CLUSTER,
    REGION,
    TARGET,
    TOPIC_ID,
    Claim,
    Planned,
    Published,
    Tables,
    as_batch,
    offsets_of,
)
from tests.support.unmodelled import NoRemovals, NoReplays, NoRewinds, NoTables

from tidemark.errors import Fenced, LedgerInconsistent, StagingLost
from tidemark.model.batch import ONLY, Batch, Contribution, Moved
from tidemark.model.dead_letters import CommonReason, Counted, Limits
from tidemark.model.facts import Facts
from tidemark.model.offsets import Offsets, Span, TopicPartition
from tidemark.model.plan import BatchSize, Bounds
from tidemark.model.state import KnownTarget, Mirrored, NewReset, NewRun, Partition, RegionState
from tidemark.protocol.errors import SpanAlreadyClaimed


@dataclass
class Transaction:
    """What one transaction has changed so far."""

    tables: Tables
    without: Collection[str]

    def _set(self, **values: Any) -> None:
        self.tables = self.tables._replace(**values)


class FakeSettling(Transaction, NoRewinds):
    """A transaction that may take the next epoch."""

    @property
    def state(self) -> RegionState:
        known = self.tables
        places = known.epoch, known.head_seq, known.next_seq
        targets = {ONLY: KnownTarget(TARGET)}
        return RegionState(REGION, *places, CLUSTER, REGION, targets=targets)

    def partitions(self) -> dict[TopicPartition, Partition]:
        known = self.tables
        return {
            one: Partition(TOPIC_ID, offset, known.head_seq)
            for one, offset in offsets_of(known.offsets).items()
        }

    def target_oid(self, target: str) -> int | None:
        return None

    def key_forms(self, target: str, columns: Collection[str]) -> Mapping[str, str]:
        return {}

    def take_epoch(self, seen: Mirrored) -> int:
        self._set(epoch=max(self.tables.epoch, seen.epoch) + 1)
        return self.tables.epoch

    def discard_unpublished_batches(self) -> tuple[int, ...]:
        kept = self.tables.planned[1:] if "discard" in self.without else ()
        gone = tuple(batch.seq for batch in self.tables.planned if batch not in kept)
        self._set(planned=kept, staged=frozenset(s for s in self.tables.staged if s[0] not in gone))
        return gone

    def end_histories(self, epoch: int, partitions: list[TopicPartition]) -> None:
        assert not partitions

    def write_initial_offsets(self, initial: Offsets, topic_ids: Mapping[str, str]) -> None:
        assert not initial

    def write_made_with(self, *made_with: object) -> None: ...

    def write_run(self, epoch: int, run: NewRun) -> None:
        self._set(run=(epoch, run.run_id, run.bounds, ()))

    def log_ends(self) -> dict[Any, Any]:
        return {}

    def unread(self) -> dict[Any, Any]:
        return {}

    def write_target_offsets(self, epoch: int, facts: Facts, seen: object) -> None:
        assert self.tables.run
        ends = tuple(facts.ends[one] for one in offsets_of(self.tables.offsets))
        self._set(run=(*self.tables.run[:3], ends))

    def write_reset(self, epoch: int, row: NewReset, discarded: Sequence[int]) -> None:
        self._set(reset_epoch=epoch)


class FakeDeciding(Transaction, NoRemovals, NoReplays, NoTables):
    """A transaction of one epoch."""

    def __init__(self, tables: Tables, without: Collection[str], epoch: int) -> None:
        super().__init__(tables, without)
        self.epoch = epoch

    @property
    def head_seq(self) -> int:
        return self.tables.head_seq

    @property
    def next_seq(self) -> int:
        return self.tables.next_seq

    def unpublished_batches(self, owned: object = None) -> tuple[Batch, ...]:
        return tuple(map(as_batch, self.tables.planned))

    def next_offsets(self) -> Offsets:
        return offsets_of(self.tables.offsets)

    def target_offsets(self) -> Offsets:
        return offsets_of(self.tables.run[3]) if self.tables.run else {}

    def bounds(self) -> Bounds:
        assert self.tables.run
        return self.tables.run[2]

    def deletions_are_due(self) -> bool:
        return False

    def unread(self) -> dict[Any, Any]:
        raise NotImplementedError  # nothing is due

    def bound_reached(self) -> str | None:
        return None

    def batches_since_reset(self) -> int | None:
        since = self.tables.reset_epoch
        return since and sum(one.epoch >= since for one in self.tables.published)

    def accepted_corrupt(self) -> tuple[Span, ...]:
        return ()

    def write_batch(self, spans: tuple[Span, ...], size: BatchSize) -> Batch:
        known = self.tables
        newest = known.planned[-1].seq if known.planned else known.head_seq
        batch = Planned(known.next_seq, self.epoch, newest, spans)
        self._refuse_plan(batch)
        self._set(next_seq=batch.seq + 1, planned=(*known.planned, batch))
        return as_batch(batch)

    def _refuse_plan(self, batch: Planned) -> None:
        most = self.bounds().in_flight
        if any(one.seq % most == batch.seq % most for one in self.tables.planned):
            self._refuse("in flight", Fenced())
        for span in batch.spans:
            begun = [self.tables.offsets[span.partition]]
            begun += [s.end for b in self.tables.planned for s in b.spans if _beside(s, span)]
            if span.start < max(begun):
                self._refuse("overlap", LedgerInconsistent())

    def is_unpublished(self, batch: Batch) -> bool:
        return any(one[:2] == (batch.seq, batch.epoch) for one in self.tables.planned)

    def claim(self, batch: Batch, contribution: Contribution) -> None:
        place, planned = self._planned(batch)
        spans = tuple(read.span for read in contribution.reads)
        if not {*planned.spans} >= {*spans} or {*planned.claimed} & {*spans}:
            self._refuse("claims", SpanAlreadyClaimed(seq=batch.seq))
        [winner] = contribution.winners
        claims = (*planned.claims, Claim(winner.member, winner.attempt, spans))
        self._replace(place, planned._replace(claims=claims))

    def is_due(self, batch: Batch) -> bool:
        place, planned = self._planned(batch)
        is_lowest = "lowest" in self.without or place == 0
        return is_lowest and ("complete" in self.without or as_batch(planned).is_complete)

    def winners(self, batch: Batch) -> list[tuple[int, int]]:
        return [(claim.member, claim.attempt) for claim in self._planned(batch)[1].claims]

    def advance_partitions(self, batch: Batch) -> None:
        offsets, claimed = [*self.tables.offsets], self._planned(batch)[1].claimed
        for span in self._planned(batch)[1].spans:
            if span not in claimed or offsets[span.partition] != span.start:
                self._refuse("offsets", Fenced())
            offsets[span.partition] = span.end
        self._set(offsets=tuple(offsets))

    def count_dead_letters(self, batch: Batch) -> Counted:
        return Counted(0, 0, 0, 0, Limits())

    def commonest_reasons(self, batch: Batch) -> list[CommonReason]:
        return []

    def publish_batch(
        self, batch: Batch, by_target: Mapping[str, Moved], dead_letters_moved: int
    ) -> int:
        moved = Moved.total(by_target.values())
        place, planned = self._planned(batch)
        if not as_batch(planned).is_complete:
            self._refuse("claimed", LedgerInconsistent())
        if moved.rows != sum(claim.rows for claim in planned.claims):
            self._refuse("counts", StagingLost())
        published = Published(*planned[:3], moved.rows)
        rest = self.tables.planned[:place] + self.tables.planned[place + 1 :]
        self._set(planned=rest, published=(*self.tables.published, published))
        return moved.rows

    def advance_head(self, batch: Batch) -> int:
        published = next(one for one in self.tables.published if one.seq == batch.seq)
        if "head" not in self.without and published.previous_seq != self.head_seq:
            return 0
        self._set(head_seq=batch.seq)
        return 1

    def published(self) -> tuple[int, int, int, int]:
        rows = [one.rows for one in self.tables.published if one.epoch == self.epoch]
        return len(rows), sum(rows), 0, sum(rows)

    def close_run(self, state: str, reason: str | None) -> None: ...

    def _planned(self, batch: Batch) -> tuple[int, Planned]:
        found = [p for p in enumerate(self.tables.planned) if p[1].seq == batch.seq]
        if not found:
            raise LedgerInconsistent()
        return found[0]

    def _replace(self, place: int, planned: Planned) -> None:
        every = self.tables.planned
        self._set(planned=(*every[:place], planned, *every[place + 1 :]))

    def _refuse(self, guard: str, error: Exception) -> None:
        if guard not in self.without:
            raise error


def _beside(one: Span, other: Span) -> bool:
    return one.topic_partition == other.topic_partition
