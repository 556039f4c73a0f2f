"""Looks: what the ledger tells people and proofs. They take no lock and decide nothing."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidemark.ledger.lookup import Lookup
from tidemark.model.batch import DeadLetter
from tidemark.model.offsets import Offsets, Span, TopicPartition


@dataclass(frozen=True, slots=True)
class Published:
    """A checkpoint as the ledger counted it."""

    seq: int
    epoch: int
    records: int
    rows: int
    dead_letters: int
    planned_at: datetime
    published_at: datetime
    spans: int
    refused: int
    """Of the dead letters, those whose rows the target refused."""


@dataclass(frozen=True, slots=True)
class PublishedSpan:
    """A span of a checkpoint: the topic it was read from and what was counted in it."""

    span: Span
    topic_id: str
    records: int
    dead_letters: int
    is_ended: bool = False
    """A person has accepted since that Kafka lost records of its log: others may be there now."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Published batches, and what they hold."""

    batches: int
    rows: int
    dead_letters: int


@dataclass(frozen=True, slots=True)
class BrokenChain:
    """A place where a partition's spans do not join: `seq` begins at `found`; None is its end."""

    partition: TopicPartition
    seq: int | None
    expected: int
    found: int

    def __str__(self) -> str:
        what = "gap" if self.found > self.expected else "overlap"
        if self.seq is None:
            return (
                f"{self.partition}: the spans end at {self.expected}, the ledger's next offset is"
                f" {self.found}"
            )
        return (
            f"{self.partition}: {what} before batch {self.seq}: it begins at {self.found}, the"
            f" spans before it end at {self.expected}"
        )


@dataclass(frozen=True, slots=True)
class ShownMember:
    """A member as it last told the ledger; no decision reads it."""

    number: int
    name: str
    state: str
    partitions: list[str]
    drain_ms: int | None
    drain_ms_max: int | None
    joined_at: datetime
    seen_at: datetime
    """When state, partitions or drain time last changed."""
    age: float
    """Seconds since then."""


@dataclass(frozen=True, slots=True)
class KeptLetter:
    """A dead letter of the ledger; headers as their JSON array says them, values in base64."""

    seq: int
    letter: DeadLetter
    headers: list[dict[str, Any]]
    refused_rows: list[dict[str, Any]] | None
    """What the transform made of a record that the target refused; else none."""


class Looks(Lookup):
    """Looks at one ledger through an engine."""

    def ledger_is_there(self) -> bool:
        """Whether any ledger was ever made in the database."""
        return bool(self._rows("ledger_is_there")[0][0])

    def checkpoints(self, region: str, last: int | None = None) -> list[Published]:
        """The region's checkpoints, newest first; all of them or the last ones."""
        rows = self._rows("checkpoints", region=region, last=last)
        return [Published(*row) for row in rows]

    def counted_after(self, region: str, seq: int) -> Counted:
        """The published batches after a seq, counted."""
        return Counted(*self._rows("counted_after", region=region, seq=seq)[0])

    def is_restorable(self, region: str, seq: int) -> bool:
        """Whether a checkpoint is still published and retained: neither rewound nor pruned."""
        return bool(self._rows("is_restorable", region=region, seq=seq)[0][0])

    def head_and_newest(self, region: str) -> tuple[int, int]:
        """The head's seq, and that of the newest published batch (0: none), of one snapshot."""
        head, newest = self._rows("head_and_newest", region=region)[0]
        return head, newest

    def published_spans(self, region: str, seq: int) -> list[PublishedSpan]:
        """The spans of a checkpoint."""
        rows = self._rows("published_spans", region=region, seq=seq)
        return [PublishedSpan(Span(*row[:4]), *row[4:]) for row in rows]

    def offsets_at(self, region: str, seq: int) -> Offsets:
        """The merged checkpoint as of a seq."""
        rows = self._rows("offsets_at", region=region, seq=seq)
        return {TopicPartition(topic, number): offset for topic, number, offset in rows}

    def now(self) -> datetime:
        """What time it is by the server's clock: ages of what it has written are told by it."""
        found: datetime = self._rows("now")[0][0]
        return found

    def members_at(self, region: str, epoch: int) -> list[ShownMember]:
        """The members that have joined under an epoch, in that order."""
        return [ShownMember(*row) for row in self._rows("members_at", region=region, epoch=epoch)]

    def left_out(self, region: str) -> list[tuple[Span, int]]:
        """The offsets that were accepted as lost, each with the epoch that went on without them."""
        return [(Span(*row[:4]), row[4]) for row in self._rows("left_out", region=region)]

    def broken_chains(self, region: str) -> list[BrokenChain]:
        """Gaps and overlaps of the spans between initial and next offset; none is right."""
        rows = self._rows("broken_chains", region=region)
        return [BrokenChain(TopicPartition(row[0], row[1]), *row[2:]) for row in rows]

    def dead_letters(self, region: str, limit: int | None = None) -> list[KeptLetter]:
        """Dead letters, newest batch first."""
        return [_kept(row) for row in self._rows("dead_letters", region=region, limit=limit)]


def _kept(row: tuple[Any, ...]) -> KeptLetter:
    seq, topic, partition, offset, timestamp_ms, key, value, headers, reason, detail, rows = row
    letter = DeadLetter(
        topic, partition, offset, timestamp_ms, _bytes(key), _bytes(value), (), reason, detail
    )
    return KeptLetter(seq, letter, headers or [], rows)


def _bytes(value: memoryview | None) -> bytes | None:
    return None if value is None else bytes(value)
