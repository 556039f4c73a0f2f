"""Errors of values: limits and names are wrong, or facts contradict the ledger."""

from dataclasses import dataclass

from tidemark.errors import (
    DataLost,
    IncompleteRead,
    InvalidSettings,
    JobFailed,
    Refused,
    StagingLost,
    TooManyDeadLetters,
)
from tidemark.model.dead_letters import CommonReason
from tidemark.model.deletions import DELETIONS_KEPT, WaitingDeletions
from tidemark.model.offsets import Span, TopicPartition, spans_in_ranges

GO_ON = (
    "to continue without these records, start the next run with --accept-data-loss (also in the"
    " DAG's form); the ledger records it"
)


class BoundOutOfRange(InvalidSettings, text="{name} must be {_allowed}, got {value}"):
    name: str
    value: int
    limit: int

    @property
    def _allowed(self) -> str:
        return "positive" if self.value <= 0 else f"at most {self.limit}"


class TableNameMalformed(
    InvalidSettings,
    text="{name!r} is not a table name: write schema.table, such as public.flights; a name with"
    ' other characters or capitals needs double quotes, such as public."Flights 2"',
):
    name: str


class TableNameTooLong(
    InvalidSettings, text="{name!r} has {size} bytes, Postgres allows {limit} for a name"
):
    name: str
    size: int
    limit: int


class TableInOwnSchema(
    InvalidSettings,
    text="schema {schema} is Tidemark's own, for its ledger and its staging tables: name a table"
    " of another schema",
):
    schema: str


class AcceptedTextHasNoRange(
    InvalidSettings,
    text="{given!r} is not a range of offsets: write it as in the error, topic[0]@[10, 20)",
):
    given: str


class AcceptedRangesOverlap(
    Refused,
    text="region {region}: {one} and {other} overlap. Give each corrupt batch once, with the range"
    " that CORRUPT_RECORD named",
):
    region: str
    one: Span
    other: Span


class AcceptedRangeNotDue(Refused):
    region: str
    span: Span
    next_offset: int | None
    end: int | None

    def __str__(self) -> str:
        at, partition = self.next_offset, self.span.topic_partition
        read = "does not read it" if at is None else f"reads {partition} from {at} to {self.end}"
        return (
            f"region {self.region}: {self.span} can't be left out: this run {read}. Give the range"
            " that CORRUPT_RECORD named; do not repeat a range that an earlier run has left out"
        )


class OtherCluster(
    DataLost,
    text="region {region}: the ledger's offsets belong to Kafka cluster {known}, but the"
    " connection leads to {found}. Correct the connection; or, if this is meant, " + GO_ON,
):
    region: str
    known: str
    found: str


class LeftTopicsGone(
    DataLost,
    text="region {region}: {topics:list} is no longer read, and was deleted from Kafka: its"
    " offsets can no longer be mirrored; " + GO_ON,
):
    region: str
    topics: tuple[str, ...]


class TopicNotThatOfTheLedger(
    DataLost,
    text="region {region}: topic {topic} (id {topic_id}) {_became}; the ledger's offsets name"
    " records that no longer exist; " + GO_ON,
):
    region: str
    topic: str
    topic_id: str
    found_id: str | None

    @property
    def _became(self) -> str:
        return "is gone" if self.found_id is None else f"was created again as {self.found_id}"


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


class NextOffsetsNotHeld(
    DataLost,
    text="region {region}: {partitions:clauses}. Nothing was skipped. Restore the records; "
    + GO_ON,
):
    region: str
    partitions: tuple[NotHeld, ...]


class DeletionsMayBeGone(
    DataLost,
    text="region {region}: {waiting:clauses}: compaction may have removed them, and the deleted"
    " rows would stay in the target. Nothing was skipped. Delete by hand the rows that the source"
    " no longer has, and raise the topic's "
    + DELETIONS_KEPT
    + " above the longest pause between runs (this brings back nothing that is already gone); "
    + GO_ON,
):
    region: str
    waiting: tuple[WaitingDeletions, ...]


_CUT = (
    "rows were cut or skipped. Remove limit(), first() and always-false filters from the transform"
)


class SpansNotReadToTheEnd(IncompleteRead):
    region: str
    seq: int
    transform: str | None
    spans: tuple[Span, ...]

    def __str__(self) -> str:
        return (
            f"region {self.region}, batch {self.seq}: transform {self.transform or '(none)'} left"
            f" no complete read of {spans_in_ranges(self.spans)}: {_CUT}"
        )


def epoch_is_lost(region: str, epoch: int, found: int) -> str:
    """Say that the ledger stands below an epoch that it had given out."""
    return (
        f"region {region}: the ledger is at epoch {found} and no longer knows epoch {epoch}:"
        " Postgres has lost what was committed last, as in a fail-over, or was restored. What was"
        " done under that epoch does not count; the next open goes on from the ledger's offsets"
    )


class ReadsLost(StagingLost):
    region: str
    seq: int
    spans: tuple[Span, ...]

    def __str__(self) -> str:
        return (
            f"region {self.region}, batch {self.seq}: a job has read {spans_in_ranges(self.spans)},"
            " and what it left is gone: Postgres has lost what was committed last, as in a"
            " fail-over. Nothing was published: the records must be drained again"
        )


class ReadsDiffer(
    JobFailed,
    text="two reads of {_ranges} gave different dead letters: the decoder, or its schema registry,"
    " changed in between. Nothing was published; the next run reads these records again",
):
    """Two attempts decoded a span differently: rows of the one do not fit the other's letters."""

    spans: tuple[Span, ...]

    @property
    def _ranges(self) -> str:
        return spans_in_ranges(self.spans)


class RowsNotConsumed(
    IncompleteRead,
    text="region {region}, batch {seq}: Spark did not take all rows of {_ranges}: " + _CUT,
):
    region: str
    seq: int
    spans: tuple[Span, ...]

    @property
    def _ranges(self) -> str:
        return spans_in_ranges(self.spans)


class DeadLettersOverLimit(TooManyDeadLetters):
    region: str
    seq: int
    records: int
    dead_letters: int
    refused: int
    """Records that the target refused besides, as far as the search went."""
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
