"""Resetting a region to its head, or rewinding it to an older checkpoint."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar
from uuid import UUID, uuid4

from tidemark.errors import Refused, Superseded
from tidemark.model.facts import Facts
from tidemark.model.offsets import Offsets, Span, TopicPartition
from tidemark.model.state import NEVER_MIRRORED, Mirrored, RegionState
from tidemark.protocol.ports import Settling
from tidemark.protocol.removal import Removal


@dataclass(frozen=True, slots=True)
class Place:
    """A partition at a checkpoint: where a rewind would put it."""

    topic_id: str
    offset: int
    """The next offset to read after the rewind."""
    next_offset: int
    """Where it stands now."""


@dataclass(frozen=True, slots=True)
class RewindPlan:
    """What a rewind to a checkpoint would remove."""

    to_seq: int
    is_checkpoint: bool
    batches: int
    dead_letters: int
    """Those that are there."""
    beyond: list[str]
    """Partitions with rows after the checkpoint whose history has ended since."""
    places: dict[TopicPartition, Place]
    published: Removal
    """What the ledger published after the checkpoint."""

    def check(self, state: RegionState, facts: Facts) -> None:
        """Refuse what cannot be undone or read again.

        Raises:
            Refused: there is no such checkpoint, or Kafka no longer holds what would be read.
        """
        where = f"region {state.region} can't be rewound to {self.to_seq or 'its initial state'}"
        if not self.is_checkpoint or 0 < self.to_seq < state.oldest_seq:
            oldest = f"; the oldest retained one is {state.oldest_seq}" if state.oldest_seq else ""
            raise Refused(
                f"{where}: there is no such checkpoint{oldest}, the head is {state.head_seq}"
                " (`tidemark checkpoints` lists them)"
            )
        faults = [
            f"the history of {name} has ended since: offsets were left out or lost there, and no"
            " rewind goes back behind them"
            for name in self.beyond
        ]
        faults += self._not_held(facts)
        if faults:
            raise Refused(
                f"{where}: {'; '.join(faults)}. Nothing was changed. Rewind to a newer checkpoint"
            )

    @property
    def offsets(self) -> Offsets:
        """The merged checkpoint that the rewind restores."""
        return {tp: place.offset for tp, place in self.places.items()}

    def margins(self, facts: Facts) -> dict[TopicPartition, int]:
        """Offsets between Kafka's log start and where reading would begin again."""
        return {tp: p.offset - facts.log_starts[tp] for tp, p in self.places.items()}

    def _not_held(self, facts: Facts) -> list[str]:
        faults = []
        for tp, place in sorted(self.places.items()):
            if place.offset == place.next_offset:
                continue  # nothing of it is read again
            if facts.topic_ids.get(tp.topic) != place.topic_id or tp not in facts.ends:
                faults.append(f"{tp} is gone from Kafka or was created again")
            elif place.offset < (start := facts.log_starts[tp]):
                lost = Span(*tp, place.offset, start)
                faults.append(f"{lost} is below Kafka's log start and can't be read again")
        return faults


@dataclass(frozen=True, slots=True)
class Finished:
    """A reset that is complete, as its audit row says."""

    epoch: int
    from_seq: int
    to_seq: int
    rows: int
    """That were removed."""
    at: datetime

    def __str__(self) -> str:
        return (
            f"epoch {self.epoch}, batch {self.from_seq} -> {self.to_seq}, {self.rows} rows"
            f" removed, {self.at:%Y-%m-%d %H:%M:%S %Z}"
        )


@dataclass(frozen=True, slots=True)
class ResetRequest:
    """A reset to the head: by hand without run_id, by the DAG for the run that it names."""

    who: str
    why: str
    run_id: str | None = None
    epoch: int | None = None
    mirrored: Mirrored = NEVER_MIRRORED
    gone: frozenset[str] = frozenset()
    """Topics that Kafka no longer has: it takes no group offsets for them."""
    request_id: str | None = None
    """Resets once under this name: a DAG run that is cleared asks again. None: each time."""
    uuid: UUID = field(default_factory=uuid4)

    overrides: ClassVar[tuple[str, ...]] = ()
    kind: ClassVar[str] = "resetting"
    name: ClassVar[str] = "reset"

    def check(self, tx: Settling) -> None:
        """Do nothing where another epoch holds the region."""
        _refuse_to_repeat(tx, self.request_id)
        if self.epoch is not None and tx.state.epoch != self.epoch:
            raise Superseded(
                f"region {tx.state.region}: the run's epoch {self.epoch} has passed, the region is"
                f" at {tx.state.epoch}; there is nothing left to reset"
            )

    def write(self, tx: Settling, epoch: int, discarded: int | None) -> None:
        """Leave the audit row."""
        tx.write_reset(epoch, self, discarded)


@dataclass(frozen=True, slots=True)
class RewindRequest:
    """A reset by hand to an older checkpoint, with the Kafka facts seen just before."""

    who: str
    why: str
    to_seq: int
    facts: Facts
    epoch: int
    """The region's, read before Kafka was asked: a rewind removes what was looked at."""
    mirrored: Mirrored = NEVER_MIRRORED
    gone: frozenset[str] = frozenset()
    """Topics that Kafka no longer has: it takes no group offsets for them."""
    overrides: tuple[str, ...] = ()
    request_id: str | None = None
    """Resets once under this name: a DAG run that is cleared asks again. None: each time."""
    uuid: UUID = field(default_factory=uuid4)

    run_id: ClassVar[None] = None
    kind: ClassVar[str] = "resetting"
    name: ClassVar[str] = "reset"

    def check(self, tx: Settling) -> None:
        """Refuse what cannot be undone or read again, before anyone is fenced."""
        _refuse_to_repeat(tx, self.request_id)
        if tx.state.epoch != self.epoch:
            raise Superseded(
                f"region {tx.state.region}: epoch {self.epoch} passed while the rewind was"
                f" prepared, the region is now at {tx.state.epoch}. Nothing was changed. Rewind"
                " again if it is still wanted"
            )
        tx.rewind_plan(self.to_seq).check(tx.state, self.facts)

    def write(self, tx: Settling, epoch: int, discarded: int | None) -> None:
        """Leave the audit row, as started: the second transaction finishes it."""
        tx.write_reset(epoch, self, discarded)


def _refuse_to_repeat(tx: Settling, request_id: str | None) -> None:
    """A request resets once; one that died, or was superseded, before it was done may go on."""
    finished = tx.finished_reset(request_id) if request_id else None
    if finished:
        raise Refused(
            f"region {tx.state.region}: {request_id} has already reset it ({finished}). A cleared"
            " run does not reset again: nothing was changed. To reset once more, trigger a new run"
            " of the DAG"
        )
