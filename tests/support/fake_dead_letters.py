"""A ledger in memory with dead letters, for the steps of a replay beside all others.

A guard of the real ledger that is named in `without` is taken out.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.support.fake_ledger import FakeLedger, FakeTarget
from tests.support.fake_tables import CLUSTER, REGION, TARGET, TOPIC, TOPIC_ID

from tidemark.errors import Fenced, Refused, StagingLost
from tidemark.ledger.errors import EpochHasPassed
from tidemark.model.batch import (
    ONLY,
    Batch,
    Checkpoint,
    Contribution,
    Moved,
    PlannedSpan,
    Removal,
    Rows,
)
from tidemark.model.dead_letters import CommonReason, Counted, DeadLetterFilter, Limits, Replayed
from tidemark.model.offsets import Span, TopicPartition
from tidemark.model.state import KnownTarget, Mirrored, Partition, RegionState

WHERE = TopicPartition(TOPIC, 0)
BAD = 1
"""The one record that no replay can decode either."""


class DeadLetter(NamedTuple):
    """A dead letter: its offset, its batch, who chose it last, who made a row of it."""

    offset: int
    seq: int
    chosen: int | None = None
    replayed: int | None = None


class Planned(NamedTuple):
    """An unpublished batch: a drain's offsets, or how many letters a replay has chosen."""

    seq: int
    epoch: int
    previous: int
    offsets: tuple[int, ...] = ()
    chosen: int | None = None


class Published(NamedTuple):
    """A checkpoint: the next offset after it, its rows, the letters that it replayed."""

    seq: int
    previous: int
    end: int
    rows: int
    replayed: int = 0
    is_replay: bool = False


class Tables(NamedTuple):
    """All that is durable; UNLOGGED staging too, until Postgres crashes."""

    next_offset: int
    epoch: int
    head_seq: int
    next_seq: int
    planned: tuple[Planned, ...]
    published: tuple[Published, ...]
    dead_letters: tuple[DeadLetter, ...]
    rows: tuple[tuple[int, int], ...] = ()
    """Seq and offset."""
    staged: frozenset[tuple[int, int]] = frozenset()
    """Seq and offset of rows."""
    staged_bad: frozenset[tuple[int, int]] = frozenset()
    """Seq and offset of dead letters."""
    is_rewinding: bool = False


@dataclass
class DeadLetterTransaction:
    """One transaction under the region lock: of a settle, or of one epoch."""

    tables: Tables
    without: Collection[str]
    epoch: int = 0

    def _set(self, **values: Any) -> None:
        self.tables = self.tables._replace(**values)

    # --- settle ---

    @property
    def state(self) -> RegionState:
        known = self.tables
        places = known.epoch, known.head_seq, known.next_seq
        targets = {ONLY: KnownTarget(TARGET)}
        return RegionState(REGION, *places, CLUSTER, REGION, targets=targets)

    def target_oid(self, target: str) -> int | None:
        return None

    def key_forms(self, target: str, columns: Collection[str]) -> Mapping[str, str]:
        return {}

    def partitions(self) -> dict[TopicPartition, Partition]:
        return {WHERE: Partition(TOPIC_ID, self.tables.next_offset, self.tables.head_seq)}

    def take_epoch(self, seen: Mirrored) -> int:
        self._set(epoch=self.tables.epoch + 1, is_rewinding=False)
        return self.tables.epoch

    def discard_unpublished_batches(self) -> tuple[int, ...]:
        gone = tuple(one.seq for one in self.tables.planned)
        if "discard" not in self.without:
            self._set(planned=())
        return gone

    def rewind_plan(self, to_seq: int) -> Any:
        class Plan:
            def refuse(self, *_: object) -> None: ...

        return Plan()

    def write_reset(self, epoch: int, row: Any, discarded: Sequence[int]) -> None:
        self._set(is_rewinding=row.to_seq is not None)

    # --- a drain's publish ---

    def unpublished_batches(self, owned: object = None) -> tuple[Batch, ...]:
        return tuple(map(_as_batch, self.tables.planned))

    def count_dead_letters(self, batch: Batch) -> Counted:
        return Counted(0, 0, 0, 0, Limits())

    def commonest_reasons(self, batch: Batch) -> list[CommonReason]:
        return []

    def advance_partitions(self, batch: Batch) -> None:
        offsets = self._planned(batch).offsets
        if offsets[0] != self.tables.next_offset and "offsets" not in self.without:
            raise Fenced()
        self._set(next_offset=offsets[-1] + 1)

    def publish_batch(self, batch: Batch, moved: Mapping[str, Moved], dead_letters: int) -> int:
        planned = self._planned(batch)
        self._publish(planned, moved[ONLY].rows, len(planned.offsets))
        return moved[ONLY].rows

    def advance_head(self, batch: Batch) -> int:
        published = next(one for one in self.tables.published if one.seq == batch.seq)
        if "head" not in self.without and published.previous != self.tables.head_seq:
            return 0
        self._set(head_seq=batch.seq)
        return 1

    # --- a replay ---

    def write_replay(self, meant: DeadLetterFilter, limit: int) -> Batch | None:
        known = self.tables
        is_open = [one.replayed is None or "choice" in self.without for one in known.dead_letters]
        if not any(is_open):
            return None
        both = zip(known.dead_letters, is_open, strict=True)
        dead_letters = [one._replace(chosen=known.next_seq) if ok else one for one, ok in both]
        batch = Planned(known.next_seq, self.epoch, known.head_seq, (), sum(is_open))
        self._set(
            dead_letters=tuple(dead_letters),
            planned=(*known.planned, batch),
            next_seq=known.next_seq + 1,
        )
        return _as_batch(batch)

    def is_unpublished(self, batch: Batch) -> bool:
        return any(one[:2] == (batch.seq, batch.epoch) for one in self.tables.planned)

    def write_contribution(self, batch: Batch, contribution: Contribution) -> None: ...

    def mark_replayed(self, batch: Batch) -> int:
        mine = [self._is_mine(one, batch.seq) for one in self.tables.dead_letters]
        both = zip(self.tables.dead_letters, mine, strict=True)
        dead_letters = [
            one._replace(replayed=batch.seq) if is_mine else one for one, is_mine in both
        ]
        self._set(dead_letters=tuple(dead_letters))
        return sum(mine)

    def _is_mine(self, dead_letter: DeadLetter, seq: int) -> bool:
        if "mark" in self.without:
            return dead_letter.replayed is None
        return dead_letter.chosen == seq and (
            dead_letter.replayed is None or "choice" in self.without
        )

    def publish_replay(
        self,
        batch: Batch,
        contribution: Contribution,
        moved: Mapping[str, Moved],
        replayed: int,
        kept: int,
    ) -> int:
        planned = self._planned(batch)
        rows = moved[ONLY].rows
        is_whole = (kept, rows) == (contribution.dead_letters, contribution.rows[ONLY])
        if not (is_whole and replayed + kept == planned.chosen) and "counts" not in self.without:
            raise StagingLost()
        self._publish(planned, rows, contribution.rows[ONLY], replayed)
        return 1

    # --- a rewind ---

    def published_after(self, seq: int) -> Removal:
        after = [one for one in self.tables.published if one.seq > seq]
        dead_letters = sum(one.seq > seq for one in self.tables.dead_letters)
        replays = sum(one.replayed for one in after)
        return Removal({ONLY: sum(one.rows for one in after)}, dead_letters, replays)

    def rewind(self, to_seq: int) -> tuple[int, int]:
        known = self.tables
        taken = [(one.replayed or 0) > to_seq for one in known.dead_letters]
        dead_letters = known.dead_letters
        if "marks" not in self.without:
            both = zip(dead_letters, taken, strict=True)
            dead_letters = tuple(
                one._replace(replayed=None, chosen=None) if t else one for one, t in both
            )
        kept = tuple(one for one in dead_letters if one.seq <= to_seq)
        published = tuple(one for one in known.published if one.seq <= to_seq)
        end = published[-1].end if published else 0
        head = published[-1].seq if published else 0
        self._set(dead_letters=kept, published=published, next_offset=end, head_seq=head)
        return len(known.dead_letters) - len(kept), sum(taken)

    def finish_reset(self, removed: Removal) -> None:
        self._set(is_rewinding=False)

    def abandon_reset(self) -> None:
        self._set(is_rewinding=False)

    # --- the target ---

    def move(self, batch: Batch) -> int:
        found = sorted(offset for seq, offset in self.tables.staged if seq == batch.seq)
        rows = (*self.tables.rows, *((batch.seq, offset) for offset in found))
        self._set(rows=rows)
        return len(found)

    def keep(self, batch: Batch) -> int:
        bad = {offset for seq, offset in self.tables.staged_bad if seq == batch.seq}
        kept = [one.chosen == batch.seq and one.offset in bad for one in self.tables.dead_letters]
        both = zip(self.tables.dead_letters, kept, strict=True)
        self._set(dead_letters=tuple(one._replace(chosen=None) if k else one for one, k in both))
        return sum(kept)

    def remove(self, after_seq: int) -> int:
        rows = tuple(row for row in self.tables.rows if row[0] <= after_seq)
        gone = len(self.tables.rows) - len(rows)
        self._set(rows=rows)
        return gone

    def _planned(self, batch: Batch) -> Planned:
        found = [one for one in self.tables.planned if one.seq == batch.seq]
        if not found:
            raise Refused()
        return found[0]

    def _publish(self, planned: Planned, rows: int, staged: int, replayed: int = 0) -> None:
        if rows != staged and "counts" not in self.without:
            raise StagingLost()
        known, is_replay = self.tables, planned.chosen is not None
        end = known.next_offset
        one = Published(planned.seq, planned.previous, end, rows, replayed, is_replay)
        rest = tuple(other for other in known.planned if other.seq != planned.seq)
        self._set(planned=rest, published=(*known.published, one))


class DeadLetterLedger(FakeLedger):
    """The transactions of such a ledger; their fates as FakeLedger has them."""

    tables: Any

    @contextmanager
    def settling(self, region: str, name: str) -> Iterator[Any]:
        fate = self._fate()
        transaction = DeadLetterTransaction(self.tables, self._without)
        yield transaction
        self._commit(fate, transaction)  # type: ignore[arg-type]

    @contextmanager
    def deciding(self, region: str, epoch: int, name: str) -> Iterator[Any]:
        fate = self._fate()
        if (now := self.tables.epoch) != epoch and "epoch" not in self._without:
            raise EpochHasPassed(region=region, epoch=epoch, found=now)
        transaction = DeadLetterTransaction(self.tables, self._without, epoch)
        yield transaction
        self._commit(fate, transaction)  # type: ignore[arg-type]

    def merged_checkpoint(self, region: str, at: int | None = None) -> Checkpoint:
        offsets: Mapping[TopicPartition, int] = {WHERE: self.tables.next_offset}
        return Checkpoint(region, self.tables.epoch, self.tables.head_seq, dict(offsets))

    def replay_outcome(self, batch: Batch) -> Replayed | None:
        self._fate()
        found = [one for one in self.tables.published if one.seq == batch.seq]
        return Replayed(batch.seq, found[0].replayed, 0, found[0].rows) if found else None


class DeadLetterTarget(FakeTarget):
    """Staging and target, in the same tables."""

    def move_rows(self, transaction: Any, batch: Batch, room: int | None) -> dict[str, Moved]:
        return {ONLY: Moved(transaction.move(batch))}

    def move_dead_letters(self, transaction: Any, batch: Batch) -> int:
        return 0

    def keep_dead_letters(self, transaction: Any, batch: Batch, contribution: Contribution) -> int:
        kept: int = transaction.keep(batch)
        return kept

    def remove_rows(self, transaction: Any, after_seq: int) -> Rows:
        return {ONLY: transaction.remove(after_seq)}


def _as_batch(planned: Planned) -> Batch:
    whole = (Span(TOPIC, 0, 0, 3),)
    spans = tuple(PlannedSpan(span, TOPIC_ID, True) for span in whole)
    is_drain = planned.chosen is None
    return Batch(REGION, planned.epoch, planned.seq, spans, 1, is_complete=is_drain)
