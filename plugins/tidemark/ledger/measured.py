"""Measured: what the ledger keeps, counted for metrics and lineage. No decision uses it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tidemark.ledger.lookup import Lookup

WINDOW_SECONDS = 24 * 3600
"""Batches, runs and drivers of the last day are counted: pruning may take older ones."""

MOST_BATCHES = 1000
"""Of these so many, the newest: a scrape's cost is bounded."""


@dataclass(frozen=True, slots=True)
class Durations:
    """Of one batch, in seconds."""

    batch: float
    """From its plan to its publish."""
    drain: float
    """From its plan to its last contribution."""
    publish: float
    """From that to its publish."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """Records behind the last stable offset, since an earlier run opened."""

    offsets: int
    since: datetime | None
    """None if there are none."""


class Measured(Lookup):
    """Reads of one ledger through an engine."""

    def durations(self, region: str) -> Sequence[Durations]:
        """Of the last day's checkpoints, the newest ones."""
        rows = self._rows("durations", region=region, seconds=WINDOW_SECONDS, most=MOST_BATCHES)
        return [Durations(*row) for row in rows]

    def recent_runs(self, region: str) -> dict[str, int]:
        """How many runs the last day opened, by state."""
        return dict(self._rows("recent_runs", region=region, seconds=WINDOW_SECONDS))

    def recent_retries(self, region: str) -> int:
        """Drivers of the last day that joined a run in place of an earlier one."""
        return int(self._rows("recent_retries", region=region, seconds=WINDOW_SECONDS)[0][0])

    def published_rows(self, region: str, epoch: int) -> dict[str, int]:
        """Rows that an epoch has published, by target."""
        return dict(self._rows("published_rows", region=region, epoch=epoch))

    def published_records(self, region: str, epoch: int) -> dict[str, int]:
        """Records that an epoch's checkpoints are made of, by topic."""
        return dict(self._rows("published_records", region=region, epoch=epoch))

    def hidden(self, region: str) -> Hidden:
        """What an open transaction hides for longer than a run."""
        rows = self._rows("hidden", region=region)
        return Hidden(*rows[0]) if rows else Hidden(0, None)
