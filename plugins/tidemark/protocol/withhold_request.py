"""The request to withhold a batch: what is checked and written when it takes its epoch."""

from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID, uuid4

from tidemark.model.state import NEVER_MIRRORED, Mirrored
from tidemark.protocol.errors import WithholdLookedTooEarly
from tidemark.protocol.ports import Settling


@dataclass(frozen=True, slots=True)
class WithholdRequest:
    """A published batch is never to be sent to the output topic; by hand alone."""

    who: str
    why: str
    seq: int
    epoch: int
    """The region's, read before Kafka was asked what was sent."""
    mirror_at: int
    """The head: its offsets are mirrored and nothing is sent until the batch is withheld."""
    mirrored: Mirrored = NEVER_MIRRORED
    gone: frozenset[str] = frozenset()
    """Topics that Kafka no longer has: it takes no group offsets for them."""
    uuid: UUID = field(default_factory=uuid4)

    run_id: ClassVar[None] = None
    request_id: ClassVar[None] = None
    is_cancelled: ClassVar[bool] = False
    overrides: ClassVar[tuple[str, ...]] = ("withhold",)
    to_seq: ClassVar[None] = None
    kind: ClassVar[str] = "resetting"
    name: ClassVar[str] = "reset"

    def check(self, tx: Settling) -> None:
        """What was looked at is so still."""
        if tx.state.epoch != self.epoch:
            raise WithholdLookedTooEarly(
                region=tx.state.region, epoch=self.epoch, now_at=tx.state.epoch
            )

    def write(self, tx: Settling, epoch: int, discarded: tuple[int, ...]) -> None:
        """Leave the audit row of a reset, as started: the second transaction finishes it."""
        tx.write_reset(epoch, self, discarded)
