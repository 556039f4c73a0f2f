"""A ledger and a target in memory, held to the contract of the real ones by tests/contract."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from tests.support.fake_tables import Tables, as_batch, offsets_of
from tests.support.fake_transactions import FakeDeciding, FakeSettling, Transaction

from tidemark.errors import OutcomeUnknown
from tidemark.ledger.errors import EpochHasPassed
from tidemark.model.batch import ONLY, Batch, Checkpoint, Contribution, Moved, Rows
from tidemark.model.dead_letters import Replayed
from tidemark.model.state import Run
from tidemark.protocol.ports import Deciding


class Asleep(Exception):
    """The caller stands still before its next transaction."""


class FakeLedger:
    """The ledger's transactions. `fates` says what becomes of them, one after another.

    answered: COMMIT was answered · lost: it never came · sent: its answer never came · earlier: it
    was sent before, by who asks now · asleep: it does not begin.
    """

    def __init__(
        self, tables: Tables, without: Collection[str] = (), fates: Sequence[str] = ()
    ) -> None:
        self.tables = tables
        self._without = without
        self._fates = [*fates]

    @contextmanager
    def settling(self, region: str, name: str) -> Iterator[FakeSettling]:
        fate = self._fate()
        transaction = FakeSettling(self.tables, self._without)
        yield transaction
        self._commit(fate, transaction)

    @contextmanager
    def deciding(self, region: str, epoch: int, name: str) -> Iterator[FakeDeciding]:
        fate = self._fate()
        if (now := self.tables.epoch) != epoch and "epoch" not in self._without:
            raise EpochHasPassed(region=region, epoch=epoch, found=now)
        transaction = FakeDeciding(self.tables, self._without, epoch)
        yield transaction
        self._commit(fate, transaction)

    def _fate(self) -> str:
        fate = self._fates.pop(0) if self._fates else "answered"
        if fate == "asleep":
            raise Asleep
        if fate == "earlier":
            raise OutcomeUnknown()
        return fate

    def _commit(self, fate: str, transaction: Transaction) -> None:
        if fate != "lost":
            self.tables = transaction.tables
        if fate != "answered":
            raise OutcomeUnknown()

    def merged_checkpoint(self, region: str, at: int | None = None) -> Checkpoint:
        known = self.tables
        return Checkpoint(region, known.epoch, known.head_seq, offsets_of(known.offsets))

    def unpublished_batches(self, region: str) -> tuple[Batch, ...]:
        return tuple(map(as_batch, self.tables.planned))

    def run_of(self, region: str, run_id: str) -> Run | None:
        if self.tables.run is None or self.tables.run[1] != run_id:
            return None
        epoch, _, bounds, _ = self.tables.run
        rest: list[Any] = [bounds.in_flight, 0, None, None, None, None, [], []]
        return Run(region, epoch, run_id, "open", bounds.max_records, None, None, None, None, *rest)

    def outcome(self, batch: Batch, contribution: Contribution) -> str | None:
        self._fate()
        if any(one.seq == batch.seq for one in self.tables.published):
            return "published"
        found = [one for one in self.tables.planned if one.seq == batch.seq]
        by_member = (
            [one for one in found[0].claims if one.member == contribution.member] if found else []
        )
        if "own claim" not in self._without:
            spans = tuple(read.span for read in contribution.reads)
            by_member = [one for one in by_member if one.spans == spans]
        if by_member:
            return "contributed"
        return "planned" if found else None

    def find_settled(self, uuid: UUID, region: str) -> int | None:
        raise NotImplementedError  # the model's opens and resets are answered

    def reset_state(self, uuid: UUID, region: str) -> str | None:
        raise NotImplementedError  # and it rewinds nothing

    def replay_outcome(self, batch: Batch) -> Replayed | None:
        raise NotImplementedError  # and replays nothing


class FakeTarget:
    """Staging and target, in the same tables."""

    def __init__(self, without: Collection[str] = ()) -> None:
        self._without = without

    def count_staged(
        self, transaction: Deciding, batch: Batch, contribution: Contribution
    ) -> tuple[Rows, int]:
        if "own rows" in self._without:
            return contribution.rows, 0
        winners = {(batch.seq, one.member, one.attempt) for one in contribution.winners}
        staged = (s[3].width for s in _fake(transaction).tables.staged if s[:3] in winners)
        return {ONLY: sum(staged)}, 0

    def move_rows(self, transaction: Deciding, batch: Batch, room: int | None) -> dict[str, Moved]:
        known = _fake(transaction).tables
        winners = {(batch.seq, *winner) for winner in transaction.winners(batch)}
        found = sorted(s[3] for s in known.staged if s[:3] in winners)
        left = frozenset(s for s in known.staged if s[0] != batch.seq)
        rows = (*known.rows, *((batch.seq, span) for span in found))
        _fake(transaction)._set(rows=rows, staged=left)
        return {ONLY: Moved(sum(span.width for span in found))}

    def move_dead_letters(self, transaction: Deciding, batch: Batch) -> int:
        return 0


def _fake(transaction: Deciding) -> FakeDeciding:
    """The target's tables are those of the fake transaction, as real ones lie in one database."""
    assert isinstance(transaction, FakeDeciding)
    return transaction
