"""What the charts of a region's page are drawn from."""

from datetime import datetime
from typing import Any

from tidemark.ledger.past import TimedBatch
from tidemark.ledger.timeline import Timeline
from tidemark.model.offsets import Offsets
from tidemark.model.state import Run
from tidemark.page.lag_history import LagHistory, Past, lag_history

BATCHES = 120
"""Drawn, from the newest."""
_SPANS = 20_000
"""Looked at for the lag, in so many batches and runs of all partitions."""


def past(timeline: Timeline, region: str, offsets: Offsets) -> Past:
    """The newest part of the ledger; of a wide region fewer batches are looked at."""
    many = max(10, min(500, _SPANS // max(1, len(offsets))))
    batches = timeline.recent_batches(region, many)
    runs = timeline.past_runs(region, many)
    if batches and len(batches) == many:  # older runs have no batch here
        runs = [run for run in runs if run.opened_at >= batches[-1].planned_at]
    return Past(
        runs=runs,
        batches=batches,
        spans=timeline.recent_spans(region, batches[-1].seq) if batches else [],
        ends=timeline.recent_ends(region, runs[-1].epoch) if runs else [],
        resets=timeline.recent_resets(region, many),
        offsets=offsets,
    )


def charts(found: Past) -> dict[str, Any]:
    """Times in ms since 1970; counts in records and rows; durations in seconds."""
    return {
        "lag": _lag(lag_history(found)),
        "batches": [of_batch(one) for one in found.batches[:BATCHES] if one.published_at][::-1],
        "runs": [_run(run) for run in found.runs],
    }


def of_batch(batch: TimedBatch) -> dict[str, Any]:
    """A batch with its durations; what is not known is null."""
    seconds = _between(batch.planned_at, batch.published_at)
    rows = batch.rows
    return {
        "seq": batch.seq,
        "state": batch.state,
        "at": _ms(batch.published_at),
        "records": batch.records,
        "rows": rows,
        "dead_letters": batch.dead_letters,
        "drain_s": _between(batch.planned_at, batch.contributed_at),
        "publish_s": _between(batch.contributed_at, batch.published_at),
        "rows_per_s": round(rows / seconds, 1) if seconds and rows is not None else None,
    }


def _lag(history: LagHistory) -> dict[str, Any]:
    bands = [{"name": name, "values": values} for name, values in history.bands.items()]
    return {"times": [_ms(at) for at in history.times], "bands": bands, "worst": history.worst}


def _run(run: Run) -> dict[str, Any]:
    return {"epoch": run.epoch, "at": _ms(run.opened_at), "state": run.state}


def _between(first: datetime | None, last: datetime | None) -> float | None:
    return None if first is None or last is None else round((last - first).total_seconds(), 3)


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1000)
