"""Batches: what is planned, contributed, staged and moved, and the checkpoint that comes of it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace

from tidemark.model.offsets import LogPosition, Offsets, Span, TopicPartition

Rows = Mapping[str, int]
"""How many rows, by the name of their target."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A winning task attempt of a member: the staging rows it wrote are the ones that count."""

    member: int
    attempt: int
    rows: Rows
    """All of them in one COMMIT: what it made of a record stands in every target, or in none."""

    @property
    def key(self) -> tuple[int, int]:
        """By which staging knows its rows."""
        return self.member, self.attempt


@dataclass(slots=True)
class Tally:
    """What has been read of a span so far."""

    records: int = 0
    bytes: int = 0
    """Values, as read."""
    read_up_to: LogPosition | None = None
    """After the last record; None while there is none, or where the broker tells no epoch."""


@dataclass(frozen=True, slots=True)
class SpanRead:
    """A complete read of one span by one attempt: records seen and dead letters staged."""

    span: Span
    member: int
    attempt: int
    records: int
    dead_letters: int
    bytes: int = 0
    read_up_to: LogPosition | None = None

    @property
    def record_end(self) -> int | None:
        """Offset after the last record; None as for `read_up_to`."""
        return self.read_up_to.offset if self.read_up_to else None

    @property
    def leader_epoch(self) -> int | None:
        """Of the last record; None as for `read_up_to`."""
        return self.read_up_to.leader_epoch if self.read_up_to else None


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one member has staged for a batch: whole spans, winners, counts."""

    member: int
    reads: tuple[SpanRead, ...]
    winners: tuple[Attempt, ...]
    seconds: float | None = None
    """How long the member was at it, staging included; None: not measured."""

    @classmethod
    def of(
        cls,
        member: int,
        reads: tuple[SpanRead, ...],
        winners: Iterable[Attempt],
        seconds: float | None = None,
    ) -> "Contribution":
        """A member's, without the winners that have staged no row."""
        return cls(member, reads, tuple(one for one in winners if any(one.rows.values())), seconds)

    @property
    def rows(self) -> dict[str, int]:
        """Rows staged by the winning attempts, by target."""
        found: Counter[str] = Counter()
        for winner in self.winners:
            found.update(winner.rows)
        return dict(found)

    @property
    def dead_letters(self) -> int:
        """Dead letters staged by the reads that count."""
        return sum(read.dead_letters for read in self.reads)


STAGING_SCHEMA = "tidemark_staging"

ONLY = ""
"""The name of a region's target where it has one."""


@dataclass(frozen=True, slots=True)
class Staging:
    """Names of one batch's staging tables; they are made and dropped as a whole.

    Each target has a table of rows, see `of_target`; the others are of all targets. rows and
    dead_letters are UNLOGGED; reads is logged, so that a Postgres crash leaves counts that can't be
    met instead of a read that seems never to have happened.
    """

    schema: str
    rows: str
    dead_letters: str
    reads: str

    @classmethod
    def of(cls, region: str, seq: int) -> "Staging":
        """Name the tables of batch `seq` of `region`."""
        base = f"{region}_{seq}"
        return cls(STAGING_SCHEMA, f"{base}_rows", f"{base}_dead_letters", f"{base}_reads")

    @staticmethod
    def pattern(region: str, seqs: str = "[0-9]+") -> str:
        """The pattern, with the seq as its group, that the tables of a region's batches match."""
        return rf"^{region}_({seqs})_(rows(\..*)?|reads|dead_letters)$"

    def of_target(self, target: str) -> "Staging":
        """The same with the rows of one target; no region's name has a dot."""
        return replace(self, rows=f"{self.rows}.{target}") if target != ONLY else self


@dataclass(frozen=True, slots=True)
class PlannedSpan:
    """A span of the plan with the topic id it was planned on; claimed once contributed."""

    span: Span
    topic_id: str
    claimed: bool = False
    read_up_to: LogPosition | None = None
    """After the last record before the span; markers and gaps may lie between. None if unknown."""


SET_ASIDE = "SET_ASIDE"
"""Stands for the reason of a dead letter that a proof does not decode: it may be a row by now."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Where records are read instead of Kafka: dead letters of a region, by a replay's seq."""

    region: str
    seq: int
    is_proof: bool = False
    """Those that became its rows; else those that it has chosen."""


@dataclass(frozen=True, slots=True)
class Batch:
    """An unpublished batch of an epoch: what becomes visible at once."""

    region: str
    epoch: int
    seq: int
    spans: tuple[PlannedSpan, ...]
    """All of them; or, to a member, those that it may own."""
    size: int = 0
    """The number of all its spans; 0 if it is not known."""
    is_complete: bool = False
    """All its spans are claimed, as far as the ledger has shown."""
    stored: Stored | None = None
    """Of a replay: its records are dead letters, and lie in its spans among others."""
    set_aside: frozenset[tuple[str, int, int]] = frozenset()
    """Topic, partition and offset of records that are not decoded: they may be rows by now."""

    @property
    def staging(self) -> Staging:
        """The batch's own staging tables."""
        return Staging.of(self.region, self.seq)

    @property
    def read_up_to(self) -> dict[TopicPartition, LogPosition]:
        """Where the last record before each span ended, where that is known."""
        return {
            planned.span.topic_partition: planned.read_up_to
            for planned in self.spans
            if planned.read_up_to
        }

    def after(self, reads: Sequence[SpanRead]) -> "Batch":
        """The same plan; a span that begins where a read ended follows what that read found."""
        found = {
            (read.span.topic_partition, read.span.end): read.read_up_to
            for read in reads
            if read.read_up_to
        }
        spans = (
            replace(p, read_up_to=found.get((p.span.topic_partition, p.span.start), p.read_up_to))
            for p in self.spans
        )
        return replace(self, spans=tuple(spans))

    @property
    def unclaimed(self) -> tuple[PlannedSpan, ...]:
        """The spans that nobody has contributed yet."""
        return tuple(planned for planned in self.spans if not planned.claimed)


@dataclass(frozen=True, slots=True)
class Moved:
    """What became of the staged rows of a batch, or of those of one target.

    Moved to the target; refused by it and kept; or, of an upsert, a row that deletes its key, or
    that a newer row of the same key supersedes.
    """

    rows: int
    refused_rows: int = 0
    refused_records: int = 0
    dead_letters: int = 0
    """Written for the refused records."""
    deleted: int = 0
    superseded: int = 0
    key: tuple[str, ...] | None = field(default=None, kw_only=True)
    """Columns that the target's rows were upserted by; None: they were appended."""

    @property
    def staged_rows(self) -> int:
        """How many staged rows these are: all that were contributed, unless some are missing."""
        return self.rows + self.refused_rows + self.deleted + self.superseded

    @classmethod
    def total(cls, parts: "Iterable[Moved]") -> "Moved":
        """What became of the rows of all targets: the counts."""
        counts = (astuple(part)[:-1] for part in parts)
        return cls(*map(sum, zip(*counts, strict=True)))


@dataclass(frozen=True, slots=True)
class Removal:
    """Rows by target, and dead letters, that came after a checkpoint."""

    rows: Rows
    dead_letters: int
    replays: int = 0
    """Dead letters that became rows after it: they are dead letters again."""

    @property
    def total(self) -> int:
        """Rows of all targets."""
        return sum(self.rows.values())

    def is_same(self, other: "Removal") -> bool:
        """Whether all counts are equal; a target without rows may be missing."""
        rows = Counter(self.rows) == Counter(other.rows)
        return rows and replace(self, rows={}) == replace(other, rows={})

    def __str__(self) -> str:
        rows = (f"{count} rows{f' of {name}' * bool(name)}" for name, count in self.rows.items())
        replays = f" and {self.replays} replays of dead letters" if self.replays else ""
        return f"{', '.join(rows) or '0 rows'} and {self.dead_letters} dead letters{replays}"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The merged checkpoint as of a seq, with the region's epoch."""

    region: str
    epoch: int
    seq: int
    offsets: Offsets
    sends: Mapping[str, str] = field(default_factory=dict)
    """The settings by which the region's newest run sends what is published; none: it does not."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not become a row: raw, with coordinates and reason."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] | None
    """None: the client could not give them, for a key is not UTF-8."""
    reason: str
    detail: str
    hash: bytes | None = None
    """Of the whole record, see `record_hash`; None: the record was not at hand."""
    whole_bytes: int | None = None
    """Of its key, value and headers, where only their beginning is kept; None: all is."""

    @property
    def coordinates(self) -> str:
        """Where the record is: `flights[3]@42`."""
        return f"{TopicPartition(self.topic, self.partition)}@{self.offset}"
