"""A region's past as the ledger keeps it: what the pages show."""

from dataclasses import dataclass
from datetime import datetime

from tidemark.model.state import ResetKind

DAY_PARTS = 48
"""Half hours, the last of which is not over."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a region stands, and its last day."""

    region: str
    state: str
    epoch: int
    head_seq: int
    target_lag: int | None
    """Offsets up to the target offsets of the newest run."""
    last_checkpoint_at: datetime | None
    last_checkpoint_age: float | None
    """Seconds, by the server's clock."""
    dead_letters: int
    consecutive_resets: int
    run_id: str | None
    """Of the newest run, which a reset may have followed."""
    run_state: str | None
    """How that run ended, or open."""
    reason: str | None
    """Why that run failed."""
    newest_run_at: datetime | None
    newest_reset_at: datetime | None
    day_dead_letters: int
    day_parts: list[int]
    """Half hours since a day ago in which rows were published; and how many."""
    day_rows: list[int]
    day_since: datetime | None
    """Of a region with very many checkpoints: the newest ones, since then; None: the whole day."""

    @property
    def rows_by_part(self) -> list[int]:
        """Rows of each half hour of the last day."""
        rows = dict(zip(self.day_parts, self.day_rows, strict=True))
        return [rows.get(part, 0) for part in range(DAY_PARTS)]


@dataclass(frozen=True, slots=True)
class TimedBatch:
    """A batch, from its plan to its publish."""

    seq: int
    epoch: int
    kind: str
    state: str
    records: int | None
    rows: int | None
    dead_letters: int | None
    spans: int
    claimed: int
    planned_at: datetime
    contributed_at: datetime | None
    """When the last contribution came."""
    published_at: datetime | None
    sized_by: str | None = None
    """What kept it from being larger, a `SizedBy`; None: it is a replay, or an older version's."""


@dataclass(frozen=True, slots=True)
class Driver:
    """A member, as a lane."""

    member: int
    epoch: int
    name: str
    state: str
    joined: datetime
    seen: datetime


@dataclass(frozen=True, slots=True)
class Share:
    """A member's part in a batch; a batch of several members has several."""

    member: int
    seq: int
    state: str
    planned: datetime
    """When it was planned, or when the member joined, if that was later."""
    published: datetime | None
    rows: int | None
    """Of the whole batch."""


_NAMED = {"reset": "reset", "replay": "replay", "withhold": "batch withheld"}


@dataclass(frozen=True, slots=True)
class PastReset:
    """A reset of any kind, and who wanted it."""

    epoch: int
    kind: ResetKind
    requested_by: str
    why: str
    run_id: str | None
    discarded_seqs: list[int]
    from_seq: int
    to_seq: int
    rows_removed: int
    overrides: list[str]
    state: str
    started_at: datetime
    finished_at: datetime | None

    @property
    def is_rewind(self) -> bool:
        """Whether it took batches back."""
        return self.to_seq < self.from_seq

    def __str__(self) -> str:
        if self.kind == "rewind":
            return f"rewind to checkpoint {self.to_seq}"
        named = _NAMED[self.kind]
        batches = " and ".join(f"batch {seq}" for seq in self.discarded_seqs)
        return f"{named}, {batches} discarded" if batches else named


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """How many dead letters have a reason, and the newest batch with one."""

    reason: str
    count: int
    newest_seq: int


@dataclass(frozen=True, slots=True)
class ShownDeadLetter:
    """A dead letter without what is too long to show."""

    seq: int
    published_at: datetime
    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    reason: str
    detail: str
    key: bytes | None
    key_bytes: int | None
    value: bytes | None
    value_bytes: int | None
    refused_rows: str | None
    whole_bytes: int | None = None
    """Of the whole record, where the ledger keeps only its beginning."""
