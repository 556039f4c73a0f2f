"""What the ledger says of a region, its partitions, its runs and its resets, and who owns what."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal, NamedTuple
from uuid import UUID

from tidemark.model.dead_letters import Limits
from tidemark.model.offsets import LogPosition
from tidemark.model.output import Sent, marked
from tidemark.model.plan import Bounds


class KnownTarget(NamedTuple):
    """A table that the region's rows go to."""

    table: str
    oid: int | None = None
    """Of the table that bore this name at the first publish; None before it."""
    key_forms: Mapping[str, str] = MappingProxyType({})
    """Of an upsert: the form (`text_form`) in which the ledger keeps each column of its key."""


@dataclass(frozen=True, slots=True)
class RegionState:
    """A region's row: its fencing number and where its head stands."""

    region: str
    epoch: int
    head_seq: int
    next_seq: int
    cluster_id: str
    group_id: str
    oldest_seq: int = 0
    """Oldest checkpoint that can be restored; 0 while none was pruned."""
    consecutive_resets: int = 0
    """Resets of failed runs since the newest checkpoint or the newest reset by hand."""
    fingerprint: dict[str, Any] = field(default_factory=dict)
    """What the region's rows are made with; empty before its first open."""
    targets: dict[str, KnownTarget] = field(default_factory=dict)

    @property
    def tables(self) -> dict[str, str]:
        """The targets' tables, by the targets' names."""
        return {name: known.table for name, known in self.targets.items()}

    @property
    def into(self) -> str:
        """The tables of all targets, for a person."""
        return ", ".join(self.tables.values())


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as the ledger knows it; offsets are the next to read."""

    topic_id: str
    next_offset: int
    seq: int
    leader_epoch: int | None = None
    """Of the last record that was read; None before the first."""
    record_end: int | None = None
    """The offset after that record."""

    @property
    def read_up_to(self) -> LogPosition | None:
        """Where the log goes on after the last record that was read."""
        return LogPosition.known(self.record_end, self.leader_epoch)


@dataclass(frozen=True, slots=True)
class Run:
    """One epoch's work as the ledger knows it."""

    region: str
    epoch: int
    run_id: str
    state: str
    max_records: int
    max_bytes: int | None
    max_batches: int | None
    max_seconds: int | None
    batch_seconds: int | None
    in_flight: int
    backlog: int
    bound: str | None
    reason: str | None
    opened_at: datetime
    closed_at: datetime | None
    overrides: list[str]
    remarks: list[str]


@dataclass(frozen=True, slots=True)
class Mirrored:
    """What the mirror in Kafka was last written under, as its metadata says."""

    epoch: int = 0
    seq: int = 0
    sent_seq: int = 0
    """Of the newest batch that was sent to an output topic."""

    @classmethod
    def parse(cls, metadata: str) -> "Mirrored":
        """Read `region/epoch/seq`, or that and what was sent; whatever the region is called.

        The group has one region at a time, and another one may have had it before. Anything else
        counts as nothing.
        """
        _, _, rest = metadata.partition("/")
        first, _, rest = rest.partition("/")
        second, _, rest = rest.partition("/")
        epoch, seq, sent = marked(first), marked(second), Sent.parse(metadata)
        if epoch is None or seq is None or (rest and not sent):
            return cls()
        return cls(epoch, seq, sent.seq if sent else 0)


NEVER_MIRRORED = Mirrored()


@dataclass(frozen=True, slots=True)
class NewRun:
    """What the ledger keeps of a run when it opens."""

    run_id: str
    uuid: UUID
    bounds: Bounds
    limits: Limits
    overrides: tuple[str, ...]
    who: str
    """Gave the overrides."""
    backlog: int
    """Offsets that it has to read."""
    remarks: tuple[str, ...]
    asked_at: datetime | None
    """Just before Kafka was asked, by the database's clock; None: not known."""
    deletions_seconds: float | None
    """For so long no deletion that it has to read is gone; None: for ever, or not known."""


ResetKind = Literal["reset", "rewind", "replay", "withhold"]
"""What took an epoch and left an audit row: a reset to the head, a rewind to an older checkpoint,
the reset with which a replay begins, or the one with which a batch is withheld."""


@dataclass(frozen=True, slots=True)
class NewReset:
    """What the ledger keeps of the request for a reset of any kind."""

    kind: ResetKind
    who: str
    why: str
    uuid: UUID
    run_id: str | None = None
    """Whose failure it mends; None: it is by hand."""
    request_id: str | None = None
    is_cancelled: bool = False
    to_seq: int | None = None
    """None: the head."""
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FinishedReset:
    """A reset that is complete, as its audit row says."""

    epoch: int
    stands: bool
    """No epoch came after it: the region is as the reset left it."""
    from_seq: int
    to_seq: int
    discarded_seqs: list[int]
    batches: int
    """That were removed, with their rows and dead letters."""
    rows: int
    dead_letters: int
    at: datetime

    def __str__(self) -> str:
        return (
            f"epoch {self.epoch}, batch {self.from_seq} -> {self.to_seq}, {self.rows} rows"
            f" removed, {self.at:%Y-%m-%d %H:%M:%S %Z}"
        )


@dataclass(frozen=True, slots=True)
class Owner:
    """Another region, with what it has of a region's own."""

    region: str
    group_id: str | None
    tables: tuple[str, ...]

    def __str__(self) -> str:
        group = [f"consumer group {self.group_id!r}"] if self.group_id else []
        targets = [f"target {table}" for table in self.tables]
        return f"region {self.region} has {' and '.join([*group, *targets])}"
