"""A region over time, for pages that show it: bounded reads that no decision uses."""

from dataclasses import replace
from typing import Any

from tidemark.ledger.history import (
    Driver,
    PastReset,
    ReasonCount,
    Share,
    ShownDeadLetter,
    Standing,
    TimedBatch,
)
from tidemark.ledger.kept_dead_letters import bytes_of
from tidemark.ledger.reader import Lookup
from tidemark.model.offsets import Offsets, Span, TopicPartition
from tidemark.model.state import Run

_NEWEST = 1000
"""Checkpoints of a region that its sums of a day look at."""
_JUDGED_DEAD_LETTERS = 10_000
_DEAD_LETTER_BYTES = 2000


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
        self, region: str, limit: int = _JUDGED_DEAD_LETTERS, most: int | None = None
    ) -> list[ReasonCount]:
        """Why the newest dead letters are dead letters, the commonest reason first.

        So many letters are looked at; `most` is how many reasons are told, None: all.
        """
        rows = self._rows("reasons_of_newest", region=region, limit=limit, most=most)
        return [ReasonCount(*row) for row in rows]

    def newest_dead_letters(self, region: str, limit: int) -> list[ShownDeadLetter]:
        """The newest dead letters, newest batch first, with the beginnings of key and value."""
        rows = self._rows(
            "newest_dead_letters", region=region, limit=limit, bytes=_DEAD_LETTER_BYTES
        )
        return [_dead_letter(*row) for row in rows]


def _dead_letter(*row: Any) -> ShownDeadLetter:
    found = ShownDeadLetter(*row)
    return replace(found, key=bytes_of(found.key), value=bytes_of(found.value))
