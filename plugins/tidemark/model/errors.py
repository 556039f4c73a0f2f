"""What the values can meet: limits and names that are wrong, facts that contradict the ledger."""

from dataclasses import dataclass

from tidemark.errors import (
    DataLost,
    IncompleteRead,
    InvalidSettings,
    JobFailed,
    Refused,
    TooManyDeadLetters,
)
from tidemark.model.dead_letters import CommonReason
from tidemark.model.offsets import Span, TopicPartition, spans_in_ranges

GO_ON = (
    "to continue without these records, start the next run with --accept-data-loss (also in the"
    " DAG's form); the ledger records it"
)


class BoundOutOfRange(InvalidSettings):
    """A limit is not positive, or larger than the ledger holds."""

    name: str
    value: int
    limit: int

    def __str__(self) -> str:
        must = "positive" if self.value <= 0 else f"at most {self.limit}"
        return f"{self.name} must be {must}, got {self.value}"


class TooManyInFlight(InvalidSettings):
    """More batches than two are to be in flight."""

    in_flight: int

    def __str__(self) -> str:
        return f"in_flight must be 1 or 2, got {self.in_flight}"


class TableNameMalformed(InvalidSettings):
    """A text is not the name of a schema and of a table."""

    name: str

    def __str__(self) -> str:
        return (
            f"{self.name!r} is not a table name: write schema.table, such as public.flights; a name"
            ' with other characters or capitals needs double quotes, such as public."Flights 2"'
        )


class TableNameTooLong(InvalidSettings):
    """The name of a schema or of a table has more bytes than Postgres allows."""

    name: str
    size: int
    limit: int

    def __str__(self) -> str:
        return f"{self.name!r} has {self.size} bytes, Postgres allows {self.limit} for a name"


class TableInOwnSchema(InvalidSettings):
    """A target lies in a schema of the ledger or of staging tables."""

    schema: str

    def __str__(self) -> str:
        return (
            f"schema {self.schema} is Tidemark's own, for its ledger and its staging tables: name a"
            " table of another schema"
        )


class AcceptedTextHasNoRange(InvalidSettings):
    """An override is to leave out offsets, and names no range of them."""

    given: str

    def __str__(self) -> str:
        return (
            f"{self.given!r} is not a range of offsets: write it as in the error, topic[0]@[10, 20)"
        )


class AcceptedRangeImpossible(InvalidSettings):
    """An override is to leave out a range that is empty or reversed."""

    given: str
    cause: str

    def __str__(self) -> str:
        return f"{self.given!r}: {self.cause}"


class AcceptedRangesOverlap(Refused):
    """Two ranges that are to be left out share offsets."""

    region: str
    one: Span
    other: Span

    def __str__(self) -> str:
        return (
            f"region {self.region}: {self.one} and {self.other} overlap. Give each corrupt batch"
            " once, with the range that CORRUPT_RECORD named"
        )


class AcceptedRangeNotDue(Refused):
    """A range that is to be left out does not lie in what the run has to read."""

    region: str
    span: Span
    next_offset: int | None
    end: int | None

    def __str__(self) -> str:
        at, partition = self.next_offset, self.span.topic_partition
        there = "is not read" if at is None else f"has to be read from {at} to {self.end}"
        return (
            f"region {self.region}: {self.span} can't be left out: {partition} {there}. Give the"
            " range that CORRUPT_RECORD named; do not repeat one that an earlier run has left out"
        )


class OtherCluster(DataLost):
    """The connection leads to another Kafka cluster than the ledger's offsets belong to."""

    region: str
    known: str
    found: str

    def __str__(self) -> str:
        return (
            f"region {self.region}: the ledger's offsets belong to Kafka cluster {self.known}, but"
            f" the connection leads to {self.found}. Correct the connection; or, if this is meant,"
            f" {GO_ON}"
        )


class LeftTopicsGone(DataLost):
    """Topics that the pipeline left were deleted: their offsets can't be mirrored."""

    region: str
    topics: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"region {self.region}: {', '.join(self.topics)} is no longer read, and was deleted"
            f" from Kafka: its offsets can no longer be mirrored; {GO_ON}"
        )


class TopicNotThatOfTheLedger(DataLost):
    """A topic was deleted, or deleted and created again."""

    region: str
    topic: str
    topic_id: str
    found_id: str | None

    def __str__(self) -> str:
        found = self.found_id
        became = "is gone" if found is None else f"was created again as {found}"
        return (
            f"region {self.region}: topic {self.topic} (id {self.topic_id}) {became}; the ledger's"
            f" offsets name records that no longer exist; {GO_ON}"
        )


@dataclass(frozen=True, slots=True)
class NotHeld:
    """A partition in which Kafka does not hold the ledger's next offset."""

    partition: TopicPartition
    next_offset: int
    held: tuple[int, int] | None
    """Where its log starts and ends; None: Kafka has no such partition."""

    def __str__(self) -> str:
        if self.held is None:
            at = f"the ledger's next offset is {self.next_offset}"
            return f"{self.partition} is gone from Kafka; {at}"
        start, end = self.held
        if self.next_offset < start:
            lost = Span(*self.partition, self.next_offset, start)
            return f"{lost} is below the log start: retention took it"
        return (
            f"{self.partition} ends at {end}, before the ledger's offset {self.next_offset}:"
            " truncated"
        )


class NextOffsetsNotHeld(DataLost):
    """Kafka no longer holds the next records of partitions, or never yet did."""

    region: str
    partitions: tuple[NotHeld, ...]

    def __str__(self) -> str:
        faults = "; ".join(map(str, self.partitions))
        return f"region {self.region}: {faults}. Nothing was skipped. Restore the records; {GO_ON}"


_CUT = (
    "rows were cut or skipped. Remove limit(), first() and always-false filters from the transform"
)


class SpansNotReadToTheEnd(IncompleteRead):
    """Spans of a batch have no complete read."""

    region: str
    seq: int
    transform: str | None
    spans: tuple[Span, ...]

    def __str__(self) -> str:
        return (
            f"region {self.region}, batch {self.seq}: transform {self.transform or '(none)'} left"
            f" no complete read of {spans_in_ranges(self.spans)}: {_CUT}"
        )


class ReadsDiffer(JobFailed):
    """Two attempts decoded a span differently: rows of the one do not fit the other's letters."""

    spans: tuple[Span, ...]

    def __str__(self) -> str:
        return (
            f"two reads of {spans_in_ranges(self.spans)} gave different dead letters: the decoder,"
            " or its schema registry, changed in between. Nothing was published; the next run reads"
            " these records again"
        )


class RowsNotConsumed(IncompleteRead):
    """Spark did not take all rows that the complete reads of spans gave."""

    region: str
    seq: int
    spans: tuple[Span, ...]

    def __str__(self) -> str:
        return (
            f"region {self.region}, batch {self.seq}: Spark did not take all rows of"
            f" {spans_in_ranges(self.spans)}: {_CUT}"
        )


class DeadLettersOverLimit(TooManyDeadLetters):
    """More records of a batch are dead letters than the limits of its run allow."""

    region: str
    seq: int
    records: int
    dead_letters: int
    refused: int
    """Besides, those of the target, as far as they were looked for."""
    most: int | None
    max_ratio: float
    max_count: int | None
    reasons: tuple[CommonReason, ...]

    def __str__(self) -> str:
        at_least = "at least " if self.refused else ""
        count = "no max_count" if self.max_count is None else f"max_count {self.max_count}"
        why = "; ".join(map(str, self.reasons)) or "No reason is left"
        return (
            f"region {self.region}, batch {self.seq}: {at_least}{self.dead_letters + self.refused}"
            f" of {self.records} records are dead letters, at most {self.most} are allowed"
            f" (dead_letters: max_ratio {self.max_ratio}, {count}). {why}."
            " Nothing of the batch is published. Correct the producer, decode.schema or the topic;"
            " or raise the limit in the pipeline file if these records are to be dead letters; then"
            " run again"
        )
