"""Lag and drift of many regions now, and the lag of one over time.

Each Kafka cluster is asked once for all regions. The past comes from what each open and each
publish left in the ledger; charts are drawn from it.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from time import time  # noqa: TID251 - an age is shown, nothing is decided by it
from typing import Any

from tidemark.errors import InvalidSettings, Refused, TidemarkError
from tidemark.kafka.config import kafka_config
from tidemark.kafka.facts import Broker
from tidemark.kafka.group import Group
from tidemark.ledger.history import PastReset, TimedBatch
from tidemark.ledger.timeline import Timeline
from tidemark.model.facts import Facts, is_pattern
from tidemark.model.offsets import Offsets, Span, TopicPartition
from tidemark.model.state import Run
from tidemark.page.question import PATIENCE, Given, connection
from tidemark.page.seen import SeenRegion
from tidemark.runs.region import facts_left
from tidemark.settings.kafka import KafkaSettings, StartPosition
from tidemark.views.status import PartitionStatus, drifting, oldest_age, short, total

_SIDE_BY_SIDE = 8


@dataclass(frozen=True, slots=True)
class Lag:
    """What Kafka says of a region beside its ledger."""

    lag: int | None = None
    """Offsets that the ledger has not passed."""
    worst: str | None = None
    """The partition with the largest lag."""
    oldest_age: float | None = None
    """Seconds since the oldest unread record was produced."""
    drifting: int | None = None
    """Partitions whose offset in Kafka is not the ledger's."""
    short: tuple[str, ...] = ()
    """Partitions whose log ends before the ledger's offset."""
    problem: str | None = None


def lags(
    regions: Iterable[tuple[SeenRegion, Offsets]], given: Given
) -> list[tuple[SeenRegion, Lag]]:
    """Each region with its lag; a cluster that does not answer is asked once."""
    clusters: dict[str, list[tuple[SeenRegion, Offsets]]] = {}
    for seen, offsets in regions:
        clusters.setdefault(seen.pipeline.kafka.connection, []).append((seen, offsets))
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        found = pool.map(lambda one: list(_of_cluster(one[0], one[1], given)), clusters.items())
        return [one for of_cluster in found for one in of_cluster]


def _of_cluster(
    conn_id: str, wanted: list[tuple[SeenRegion, Offsets]], given: Given
) -> Iterator[tuple[SeenRegion, Lag]]:
    try:
        config = kafka_config(connection(given, conn_id))
        broker = Broker(config)
        broker.ping(PATIENCE)
        facts = _facts(broker, wanted)
    except TidemarkError as error:
        yield from ((seen, Lag(problem=f"{error.code}: {error}")) for seen, _ in wanted)
        return
    logs = _Logs(config, broker, facts)
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        found = pool.map(lambda one: _lag(logs, *one), wanted)
        yield from zip((seen for seen, _ in wanted), found, strict=True)


@dataclass(frozen=True, slots=True)
class _Logs:
    """Of a Kafka cluster that has answered: where the logs of all regions begin and end."""

    config: dict[str, str]
    broker: Broker
    facts: Facts


def _facts(broker: Broker, wanted: list[tuple[SeenRegion, Offsets]]) -> Facts:
    """Of the topics in the ledgers, and of those that regions without offsets are going to read."""
    known = {at.topic for _, offsets in wanted for at in offsets}
    fresh = {one for seen, offsets in wanted if not offsets for one in seen.pipeline.kafka.topics}
    named = {topic for topic in fresh if not is_pattern(topic)}
    with suppress(Refused, InvalidSettings):  # a new region's topic hides no other region's lag
        return facts_left(broker, known | named)
    return facts_left(broker, known)


def _unopened(facts: Facts, settings: KafkaSettings) -> Lag:
    """What the first run is going to read, where it reads named topics from their beginning.

    A pattern is its author's, and may take for ever: none is matched where all regions wait.
    """
    if any(map(is_pattern, settings.topics)):
        return Lag()
    found = {at: end for at, end in facts.ends.items() if at.topic in settings.topics}
    if settings.start is not StartPosition.beginning or not found:
        return Lag()
    return Lag(sum(end - facts.log_starts[at] for at, end in found.items()))


def _lag(logs: _Logs, seen: SeenRegion, ledger: Offsets) -> Lag:
    if not ledger:
        return _unopened(logs.facts, seen.pipeline.kafka)
    ends = logs.facts.ends
    # By a pattern nobody tells here whether a topic is still read: it is not called short.
    topics = seen.pipeline.kafka.topics
    known = [
        PartitionStatus(*at, offset, None, ends.get(at), is_read=at.topic in topics)
        for at, offset in ledger.items()
    ]
    worst = max(known, key=lambda one: one.lag or 0)
    oldest = oldest_age(logs.broker, known, int(time() * 1000))
    lag, place = total(one.lag for one in known), str(worst.topic_partition)
    found = Lag(lag, place, oldest, short=short(known))
    group = Group(logs.config, seen.pipeline.group)
    try:
        committed = group.committed(ledger)
        asked = (replace(one, kafka=committed.get(one.topic_partition)) for one in known)
        return replace(found, drifting=drifting(asked))
    except TidemarkError as error:
        return replace(found, problem=f"{error.code}: {error}")
    finally:
        group.close()


NAMED = 11
"""Partitions with a band of their own; the others share one."""
POINTS = 400


@dataclass(frozen=True, slots=True)
class LagPast:
    """The newest part of a region's ledger."""

    runs: list[Run] = field(default_factory=list)
    batches: list[TimedBatch] = field(default_factory=list)
    spans: list[tuple[int, Span]] = field(default_factory=list)
    """Of these batches, each with its seq."""
    ends: list[tuple[int, TopicPartition, int]] = field(default_factory=list)
    """Epoch, partition, and where Kafka's log ended when that epoch opened."""
    resets: list[PastReset] = field(default_factory=list)
    offsets: Offsets = field(default_factory=dict)
    """Where the ledger stands now."""


@dataclass(frozen=True, slots=True)
class LagHistory:
    """Offsets that the ledger had not passed, at these times; None before it is known."""

    times: list[datetime]
    bands: dict[str, list[int]]
    """By partition, the one with the largest lag first; the rest as `N others`."""

    @property
    def worst(self) -> str | None:
        """The partition that had the largest lag."""
        return next(iter(self.bands), None)


def lag_history(past: LagPast) -> LagHistory:
    """What Kafka held at the newest open, less what was published by then.

    The high watermark, not the target offset: records that an open transaction hides wait too.
    """
    points = _thinned(list(_points(past)))
    peaks: dict[TopicPartition, int] = {}
    for _, lag in points:
        for at, waiting in lag.items():
            peaks[at] = max(peaks.get(at, 0), waiting)
    ranked = sorted(peaks, key=lambda at: (-peaks[at], at))
    named = ranked if len(ranked) <= NAMED + 1 else ranked[:NAMED]
    others = ranked[len(named) :]
    bands = {str(at): [lag.get(at, 0) for _, lag in points] for at in named}
    if others:
        bands[f"{len(others)} others"] = [sum(lag.get(at, 0) for at in others) for _, lag in points]
    return LagHistory([moment for moment, _ in points], bands)


def _points(past: LagPast) -> Iterator[tuple[datetime, dict[TopicPartition, int]]]:
    read: dict[int, list[Span]] = {}
    for seq, span in past.spans:
        read.setdefault(seq, []).append(span)
    ends: dict[int, Offsets] = {}
    for epoch, at, end in past.ends:
        ends.setdefault(epoch, {})[at] = end
    stands = _first(past)
    known: Offsets = {}
    for moment, event in sorted(_events(past), key=lambda one: one[0]):
        if isinstance(event, Run):
            known |= ends.get(event.epoch, {})
        elif isinstance(event, TimedBatch):
            stands |= {span.topic_partition: span.end for span in read.get(event.seq, ())}
        else:
            stands |= _places(read, event)
        if known:
            yield moment, {at: max(0, end - stands.get(at, end)) for at, end in known.items()}


def _events(past: LagPast) -> Iterator[tuple[datetime, Run | TimedBatch | PastReset]]:
    yield from ((run.opened_at, run) for run in past.runs)
    yield from ((one.published_at, one) for one in past.batches if one.published_at)
    yield from ((one.finished_at, one) for one in past.resets if one.is_rewind and one.finished_at)


def _first(past: LagPast) -> Offsets:
    """Where each partition stood before the oldest of these batches."""
    return dict(past.offsets) | _lowest(span for _, span in past.spans)


def _places(read: dict[int, list[Span]], rewind: PastReset) -> Offsets:
    """Where a rewind put the partitions: before what it took back."""
    back = (seq for seq in read if rewind.to_seq < seq <= rewind.from_seq)
    return _lowest(span for seq in back for span in read[seq])


def _lowest(spans: Iterable[Span]) -> Offsets:
    found: Offsets = {}
    for span in spans:
        at = span.topic_partition
        found[at] = min(found.get(at, span.start), span.start)
    return found


def _thinned(points: list[tuple[datetime, dict[TopicPartition, int]]]) -> list[
    tuple[datetime, dict[TopicPartition, int]]
]:  # fmt: skip
    """At most so many of them, evenly, the newest one for certain."""
    step = -(-len(points) // POINTS) or 1
    return points[::-1][::step][::-1]


BATCHES = 120
"""Drawn, from the newest."""
_SPANS = 20_000
"""Looked at for the lag, in so many batches and runs of all partitions."""


def past(timeline: Timeline, region: str) -> LagPast:
    """The newest part of the ledger; of a wide region fewer batches are looked at."""
    offsets = timeline.next_offsets([region]).get(region, {})
    many = max(10, min(500, _SPANS // max(1, len(offsets))))
    batches = timeline.recent_batches(region, many)
    runs = timeline.past_runs(region, many)
    if batches and len(batches) == many:  # older runs have no batch here
        runs = [run for run in runs if run.opened_at >= batches[-1].planned_at]
    return LagPast(
        runs=runs,
        batches=batches,
        spans=timeline.recent_spans(region, batches[-1].seq) if batches else [],
        ends=timeline.recent_ends(region, runs[-1].epoch) if runs else [],
        resets=timeline.recent_resets(region, many),
        offsets=offsets,
    )


def charts(found: LagPast) -> dict[str, Any]:
    """Times in ms since 1970; counts in records and rows; durations in seconds."""
    return {
        "lag": _lag_chart(lag_history(found)),
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


def _lag_chart(history: LagHistory) -> dict[str, Any]:
    bands = [{"name": name, "values": values} for name, values in history.bands.items()]
    return {"times": [_ms(at) for at in history.times], "bands": bands, "worst": history.worst}


def _run(run: Run) -> dict[str, Any]:
    return {"epoch": run.epoch, "at": _ms(run.opened_at), "state": run.state}


def _between(first: datetime | None, last: datetime | None) -> float | None:
    return None if first is None or last is None else round((last - first).total_seconds(), 3)


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1000)
