"""What a verification found, batch by batch."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What is wrong with a row, a dead letter or the ledger."""

    lost = "lost"
    """Kafka has it; the target (or the ledger's dead letters) does not."""
    doubled = "doubled"
    """It is there more often than Kafka has it."""
    altered = "altered"
    """It is there with other values."""
    stale = "stale"
    """Of a key an older record's row is there; or a row, though its key is deleted."""
    foreign = "foreign"
    """It is there, but comes from no record of the batch."""
    miscounted = "miscounted"
    """The ledger has another count."""
    broken = "broken"
    """A partition's spans have a gap or an overlap, or the head is not the newest checkpoint."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is wrong, with its coordinates where they are known."""

    kind: Kind
    what: str
    """row, dead letter or ledger."""
    seq: int | None
    where: str
    """The record as topic[partition]@offset, or empty."""
    detail: str


@dataclass(frozen=True, slots=True)
class BatchProof:
    """A checkpoint compared with what its spans gave when read again."""

    seq: int
    records: int
    rows: int
    dead_letters: int
    differences: tuple[Difference, ...] = ()
    """The first ones; `wrong` counts them all."""
    wrong: int = 0
    unverifiable: tuple[str, ...] = ()
    """What is gone, of Kafka's records or of the targets; if any, rows are only counted."""

    @property
    def verdict(self) -> str:
        """The result, for a person."""
        if self.wrong:
            return "differs"
        return "not verifiable" if self.unverifiable else "equal"


@dataclass(frozen=True, slots=True)
class Report:
    """The proof of a region: its batches, and the faults of the whole table and ledger."""

    region: str
    epoch: int
    head_seq: int
    batches: tuple[BatchProof, ...]
    differences: tuple[Difference, ...] = ()
    """The first ones that belong to no verified batch; `wrong_beyond` counts them all."""
    wrong_beyond: int = 0
    notes: tuple[str, ...] = ()

    @property
    def wrong(self) -> int:
        """The number of all faults."""
        return self.wrong_beyond + sum(batch.wrong for batch in self.batches)

    @property
    def unverifiable(self) -> int:
        """The number of batches that were only counted, not compared."""
        return sum(bool(batch.unverifiable) for batch in self.batches)


OF_ROWS = (Kind.lost, Kind.doubled, Kind.altered, Kind.stale, Kind.foreign)
"""What an audit can find."""


class ToldBy(StrEnum):
    """What tells which record a row of an audited table is of."""

    coordinates = "coordinates"
    key = "key"
    """A key has the row of its last record."""
    row = "row"
    """Nothing: rows are compared as a multiset."""


@dataclass(frozen=True, slots=True)
class AuditedPartition:
    """The records of a partition that were compared with a table."""

    topic: str
    partition: int
    start: int
    """From this offset on."""
    until: int
    """The rows of those below it must be there."""
    end: int
    """The rows of those from there up to this one may be there."""


@dataclass(frozen=True, slots=True)
class AuditReport:
    """A table that another tool fills, compared with its topics."""

    region: str
    table: str
    told_by: ToldBy
    group: str | None
    """Whose offsets say up to where the table is filled."""
    partitions: tuple[AuditedPartition, ...]
    expected: int
    """Rows that the records give, those after `until` among them."""
    rows: int
    """Rows of the table that were compared."""
    dead_letters: dict[str, int]
    """Records that are no rows by the pipeline file, by reason."""
    lost: int
    doubled: int
    altered: int
    stale: int
    foreign: int
    ahead: int
    """Rows of records after `until`: right, but a tool that begins there adds them again. Of keys
    they are not counted: there the last record counts."""
    differences: tuple[Difference, ...]
    """The first ones of each kind."""
    unverifiable: tuple[str, ...]
    """What can't be told."""
    notes: tuple[str, ...]

    @property
    def by_kind(self) -> dict[Kind, int]:
        """How many differences there are of each kind."""
        return {kind: getattr(self, kind) for kind in OF_ROWS}

    @property
    def wrong(self) -> int:
        """The number of all differences."""
        return sum(self.by_kind.values())
