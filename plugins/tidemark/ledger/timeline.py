"""A region over time, for pages that show it: bounded reads that no decision uses.

A region's past as the ledger keeps it: what the pages show.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tidemark.ledger.lookup import Lookup
from tidemark.model.offsets import Offsets, Span, TopicPartition
from tidemark.model.state import Run

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
    reason: str | None
    newest_run_at: datetime | None
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


@dataclass(frozen=True, slots=True)
class PastReset:
    """A reset or a rewind, and who wanted it."""

    epoch: int
    requested_by: str
    why: str
    run_id: str | None
    discarded_seqs: list[int]
    from_seq: int
    to_seq: int
    rows_removed: int
    dead_letters_removed: int
    overrides: list[str]
    state: str
    started_at: datetime
    finished_at: datetime | None

    @property
    def is_rewind(self) -> bool:
        """Whether it took batches back."""
        return self.to_seq < self.from_seq

    def __str__(self) -> str:
        if self.is_rewind:
            return f"rewind to checkpoint {self.to_seq}"
        batches = " and ".join(f"batch {seq}" for seq in self.discarded_seqs)
        return f"reset, {batches} discarded" if batches else "reset"


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """How many dead letters have a reason, and the newest batch with one."""

    reason: str
    count: int
    newest_seq: int


@dataclass(frozen=True, slots=True)
class ShownLetter:
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


_NEWEST = 1000
"""Checkpoints of a region that its sums of a day look at."""
_JUDGED_LETTERS = 10_000
_LETTER_BYTES = 2000


class Timeline(Lookup):
    """Reads of one ledger through an engine; none grows with the checkpoints that are retained."""

    def standings(self, regions: list[str]) -> list[Standing]:
        """Where the regions stand; one that never opened is missing."""
        rows = self._rows("standings", regions=regions, newest=_NEWEST)
        return [Standing(*row) for row in rows]

    def next_offsets(self, regions: list[str]) -> dict[str, Offsets]:
        """Where each of the regions stands, by its name."""
        found: dict[str, Offsets] = {}
        for region, topic, number, offset in self._rows("next_offsets", regions=regions):
            found.setdefault(region, {})[TopicPartition(topic, number)] = offset
        return found

    def past_runs(self, region: str, limit: int) -> list[Run]:
        """The newest runs, newest first."""
        rows = self._rows("past_runs", region=region, limit=limit)
        return [Run(region, *row) for row in rows]

    def recent_batches(self, region: str, limit: int) -> list[TimedBatch]:
        """The newest batches, newest first."""
        rows = self._rows("recent_batches", region=region, limit=limit)
        return [TimedBatch(*row) for row in rows]

    def recent_spans(self, region: str, seq: int) -> list[tuple[int, Span]]:
        """What the batches from a seq on have read, each with its seq."""
        rows = self._rows("recent_spans", region=region, seq=seq)
        return [(row[0], Span(*row[1:])) for row in rows]

    def recent_ends(self, region: str, epoch: int) -> list[tuple[int, TopicPartition, int]]:
        """Epoch, partition and its high watermark at that open, from an epoch on."""
        rows = self._rows("recent_ends", region=region, epoch=epoch)
        return [(row[0], TopicPartition(row[1], row[2]), row[3]) for row in rows]

    def recent_drivers(self, region: str, epoch: int, limit: int) -> list[Driver]:
        """The members from an epoch on, in the order of joining."""
        rows = self._rows("recent_drivers", region=region, epoch=epoch, limit=limit)
        return [Driver(*row) for row in rows]

    def recent_shares(self, region: str, epoch: int, limit: int) -> list[Share]:
        """Who had a part in which batch from an epoch on, newest first."""
        rows = self._rows("recent_shares", region=region, epoch=epoch, limit=limit)
        return [Share(*row) for row in rows]

    def recent_resets(self, region: str, limit: int) -> list[PastReset]:
        """The newest resets and rewinds, newest first."""
        rows = self._rows("recent_resets", region=region, limit=limit)
        return [PastReset(*row) for row in rows]

    def reasons_of_newest(
        self, region: str, limit: int = _JUDGED_LETTERS, most: int | None = None
    ) -> list[ReasonCount]:
        """Why the newest dead letters are dead letters, the commonest reason first.

        So many letters are looked at; `most` is how many reasons are told, None: all.
        """
        rows = self._rows("reasons_of_newest", region=region, limit=limit, most=most)
        return [ReasonCount(*row) for row in rows]

    def newest_letters(self, region: str, limit: int) -> list[ShownLetter]:
        """The newest dead letters, newest batch first, with the beginnings of key and value."""
        rows = self._rows("newest_letters", region=region, limit=limit, bytes=_LETTER_BYTES)
        return [_letter(*row) for row in rows]


def _letter(*row: Any) -> ShownLetter:
    found = ShownLetter(*row)
    return replace(found, key=_bytes(found.key), value=_bytes(found.value))


def _bytes(data: bytes | memoryview | None) -> bytes | None:
    return None if data is None else bytes(data)
