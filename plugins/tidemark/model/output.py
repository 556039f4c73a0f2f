"""The output topic: which batches were sent there, and what a batch sends."""

import re
from dataclasses import dataclass
from uuid import UUID

_MARK = re.compile(
    r"[^/]*/[0-9]+/[0-9]+/([0-9]{1,19})/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
)

Headers = tuple[tuple[str, bytes | None], ...]
"""Of a record, in order."""

OUTPUT_TOPIC = "output.topic"
"""The setting by which a region's fingerprint names its output topic."""

DEAD_LETTERS_TOPIC = "dead_letters.topic"
"""The setting by which it names the topic that dead letters are sent to."""


@dataclass(frozen=True, slots=True)
class Topics:
    """Where a region sends its rows, and its dead letters; None: nowhere."""

    rows: str | None = None
    dead_letters: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Those that there are."""
        return tuple(name for name in (self.rows, self.dead_letters) if name)

    @property
    def named(self) -> str:
        """Those that there are, in words."""
        return f"topic{'s' if len(self.names) > 1 else ''} {' and '.join(self.names)}"

    def __str__(self) -> str:
        told = {"rows": self.rows, "dead letters": self.dead_letters}
        return ", ".join(f"{what} to topic {name}" for what, name in told.items() if name)


NOWHERE = Topics()


@dataclass(frozen=True, slots=True)
class Parts:
    """What of a batch is sent: the rows of a target, or of none, and its dead letters."""

    target: str | None
    dead_letters: bool


MOST_MARKED = 1 << 62
"""Whoever may commit in the group can write a mark: above this one a bigint would end soon."""


def marked(text: str) -> int | None:
    """An epoch or a seq of a mark; None if it is none that a ledger has given out."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(MOST_MARKED))
    return int(text) if is_number and int(text) <= MOST_MARKED else None


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

        Whatever the region's name: another one may have had the group before.
        """
        found = _MARK.fullmatch(metadata)
        seq = marked(found[1]) if found else None
        return cls(seq, UUID(found[2])) if found and seq is not None else None

    def __str__(self) -> str:
        return f"{self.seq}/{self.uuid}"


NOTHING_SENT = Sent(0, UUID(int=0))


@dataclass(frozen=True, slots=True)
class SentSeqs:
    """What the ledger knows of what was sent; 0: nothing."""

    read_back: int = 0
    """The newest batch that was read back as sent."""
    begun: int = 0
    """The newest batch that a Kafka transaction may have sent, whether it had an answer or not."""


@dataclass(frozen=True, slots=True)
class Unsent:
    """A published batch that is to be sent."""

    seq: int
    uuid: UUID
    epoch: int
    rows: int
    """How many records its rows are, as the ledger counted them when it was published."""
    dead_letters: int = 0
    """How many dead letters it sends: those that were published, and not purged since."""
    is_withheld: bool = False
    """A person wants it never sent: it counts as sent with the batches after it."""

    @property
    def records(self) -> int:
        """How many it sends."""
        return self.rows + self.dead_letters

    @property
    def sent(self) -> Sent:
        """What is sent when it is."""
        return Sent(self.seq, self.uuid)

    def headers(self, region: str) -> Headers:
        """What each of its records bears."""
        named = {"region": region, "seq": str(self.seq), "epoch": str(self.epoch)}
        return tuple((name, text.encode()) for name, text in named.items())


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """One record for one of the topics; a row without a value deletes its key."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers


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
