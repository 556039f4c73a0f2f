"""The output topic: which batches were sent there, and what a batch sends."""

import re
from dataclasses import dataclass
from uuid import UUID

_MARK = re.compile(
    r"[^/]*/[0-9]+/[0-9]+/([0-9]{1,19})/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
)

OUTPUT_TOPIC = "output.topic"
"""The setting by which a region's fingerprint names its output topic."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The newest batch whose rows are in the output topic, and with it all live ones before.

    A ledger that was restored gives a seq to another batch: the uuid tells them apart.
    """

    seq: int
    uuid: UUID

    @classmethod
    def parse(cls, metadata: str) -> "Sent | None":
        """Read the end of `region/epoch/seq/sent seq/uuid`; None where there is none.

        Whatever the region's name: it may have been renamed since.
        """
        found = _MARK.fullmatch(metadata)
        return cls(int(found[1]), UUID(found[2])) if found else None

    def __str__(self) -> str:
        return f"{self.seq}/{self.uuid}"


NOTHING_SENT = Sent(0, UUID(int=0))


@dataclass(frozen=True, slots=True)
class Unsent:
    """A published batch that is to be sent."""

    seq: int
    uuid: UUID
    epoch: int
    records: int
    """How many it sends, as the ledger counted them when it was published."""

    @property
    def sent(self) -> Sent:
        """What is sent when it is."""
        return Sent(self.seq, self.uuid)


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """One record for the output topic; without a value it deletes its key."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class OutputHistory:
    """What the ledger says of a region's output, beside the batches."""

    was_published: bool
    """Whether it holds any batch that is published or rewound."""
    oldest_seq: int
    """The oldest checkpoint that is not pruned; 0 while none was."""
    sent_seq: int | None
    """The newest batch that a close has seen as sent; None: none has."""
    head: Sent
    """The newest checkpoint, as if it were sent."""
