"""Regions as Prometheus metrics: gauges, and histograms of gauges, of what stands now.

A rewind lowers them and a scrape missed loses nothing. Names and units
follow Prometheus' conventions; ages are left to `time() - tidemark_checkpoint_timestamp_seconds`.

How long batches took is a histogram of gauges (OpenMetrics: gaugehistogram). Prometheus' own
histograms are counters, which never fall; the ledger prunes and rewinds. So these are the
checkpoints of the last day, as they stand. `histogram_quantile(0.95, name_bucket)` takes them as
they are, without `rate`.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from prometheus_client.core import GaugeHistogramMetricFamily, GaugeMetricFamily, Metric

from tidemark.errors import TidemarkError
from tidemark.ledger.queries import (
    Durations,
    Hidden,
    Measured,
    Published,
    ShownMember,
)
from tidemark.ledger.timeline import Timeline
from tidemark.model.offsets import TopicPartition
from tidemark.model.state import Mirrored
from tidemark.runs.region import Region
from tidemark.views.status import (
    OutputStatus,
    PartitionStatus,
    RegionStatus,
    TargetStatus,
    oldest_times,
)
from tidemark.views.verdict import verdict_of

MOST_DEAD_LETTERS = 100_000
"""Of these so many, the newest, the reasons are counted."""

MOST_REASONS = 10


@dataclass(frozen=True, slots=True)
class InLedger:
    """What the ledger keeps beside the status."""

    durations: Sequence[Durations]
    dead_letters: Mapping[str, int]
    """Dead letters that wait, by the commonest reasons."""
    runs: Mapping[str, int]
    retries: int
    hidden: Hidden


@dataclass(frozen=True, slots=True)
class Measures:
    """One region; what could not be asked is empty or None."""

    status: RegionStatus
    in_ledger: InLedger | None = None
    oldest: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Where there is a lag, the time (ms) of the first unread record, if it is known."""
    mirrored_seq: int | None = None
    """The checkpoint that Kafka's group offsets were written for."""


def measures_of(region: Region, status: RegionStatus) -> Measures:
    """What is counted of a region with this status.

    Raises:
        TidemarkError: the ledger can't be asked.
    """
    if status.epoch is None:
        return Measures(status)
    kept, name = Measured(region.ledger.engine), region.name
    reasons = Timeline(region.ledger.engine).reasons_of_newest(
        name, MOST_DEAD_LETTERS, MOST_REASONS
    )
    counted = InLedger(
        durations=kept.durations(name),
        dead_letters={one.reason: one.count for one in reasons},
        runs=kept.recent_runs(name),
        retries=kept.recent_retries(name),
        hidden=kept.hidden(name),
    )
    if status.problem:  # Kafka was silent a moment ago
        return Measures(status, counted)
    try:
        return Measures(status, counted, _oldest(region, status), _mirrored_seq(region, status))
    except TidemarkError:
        return Measures(status, counted)


def _oldest(region: Region, status: RegionStatus) -> dict[TopicPartition, int]:
    now_ms = int(region.ledger.queries.now().timestamp() * 1000)
    return oldest_times(region.broker, status.partitions, now_ms)


def _mirrored_seq(region: Region, status: RegionStatus) -> int | None:
    asked = [one.topic_partition for one in status.partitions]
    found = region.group.committed_metadata(asked).values() if asked else ()
    return max((Mirrored.parse(metadata).seq for _, metadata in found), default=None)


BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 150.0, 300.0, 900.0, 3600.0)
"""Seconds; a batch is in every bucket from the first bound that it does not exceed."""

_NAMED: dict[str, tuple[str, Callable[[Durations], float]]] = {
    "tidemark_batch_duration_seconds": (
        "The last day's batches, from plan to publish",
        lambda one: one.batch,
    ),
    "tidemark_drain_duration_seconds": (
        "The last day's batches, from plan to last contribution",
        lambda one: one.drain,
    ),
    "tidemark_publish_duration_seconds": (
        "The last day's batches, from last contribution to publish",
        lambda one: one.publish,
    ),
}


def durations_of(
    found: Mapping[str, Sequence[Durations]],
) -> Iterator[GaugeHistogramMetricFamily]:
    """The histograms of all regions."""
    for name, (meaning, seconds_of) in _NAMED.items():
        family = GaugeHistogramMetricFamily(name, meaning, labels=["region"])
        for region, durations in found.items():
            seconds = [max(0.0, seconds_of(one)) for one in durations]
            family.add_metric([region], _buckets(seconds), gsum_value=sum(seconds))
        yield family


def _buckets(seconds: Sequence[float]) -> list[tuple[str, float]]:
    counts = [0] * (len(BOUNDS) + 1)
    for one in seconds:
        counts[bisect_left(BOUNDS, one)] += 1
    names = [*map(str, BOUNDS), "+Inf"]
    return list(zip(names, map(float, accumulate(counts)), strict=True))


Number = float | None
OTHER = "other"
"""The reason of dead letters whose own is not among the commonest."""

_OF_REGION: dict[str, tuple[str, Callable[[RegionStatus], Number]]] = {
    "tidemark_up": ("1 if ledger and Kafka could be asked, else 0", lambda r: not r.problem),
    "tidemark_epoch": ("One more at each open, reset, rewind or replay", lambda r: r.epoch),
    "tidemark_head_seq": ("Seq of the newest checkpoint", lambda r: r.head_seq),
    "tidemark_consecutive_resets": ("Resets since a publish", lambda r: r.consecutive_resets),
    "tidemark_complete_timestamp_seconds": (
        "Up to when all that a consumer could see is in the targets, or a dead letter",
        lambda r: r.complete_at.timestamp() if r.complete_at else None,
    ),
    "tidemark_dead_letters": (
        "Dead letters that are there, neither purged nor replayed",
        lambda r: r.dead_letters,
    ),
}
_OF_BATCH: dict[str, tuple[str, Callable[[Published], Number]]] = {
    "tidemark_checkpoint_timestamp_seconds": (
        "When the newest checkpoint was published",
        lambda b: b.published_at.timestamp(),
    ),
    "tidemark_batch_records": ("Records of the newest batch", lambda b: b.records),
    "tidemark_batch_rows": ("Rows of the newest batch", lambda b: b.rows),
    "tidemark_batch_dead_letters": ("Its dead letters", lambda b: b.dead_letters),
    "tidemark_batch_seconds": (
        "From the newest batch's plan to its publish",
        lambda b: (b.published_at - b.planned_at).total_seconds(),
    ),
}
_OF_OUTPUT: dict[str, tuple[str, Callable[[OutputStatus], Number]]] = {
    "tidemark_output_sent_seq": ("Seq of the newest batch in the topic", lambda o: o.sent_seq),
    "tidemark_output_unsent_batches": ("Published, not sent", lambda o: o.unsent_batches),
    "tidemark_output_unsent_records": ("What these will send", lambda o: o.unsent_records),
    "tidemark_output_withheld_batches": (
        "Published, never to be sent",
        lambda o: len(o.withheld_seqs),
    ),
}
_OF_TARGET: dict[str, tuple[str, Callable[[TargetStatus], Number]]] = {
    "tidemark_target_rows": ("Rows of the retained checkpoints", lambda t: t.ledger),
}
_OF_PARTITION: dict[str, tuple[str, Callable[[PartitionStatus], Number]]] = {
    "tidemark_lag_offsets": ("Offsets that the ledger has not passed", lambda p: p.lag),
    "tidemark_drift_offsets": ("Kafka's group offset less the ledger's", lambda p: p.drift),
}
_OF_MEASURES: dict[str, tuple[str, Callable[[Measures], Number]]] = {
    "tidemark_mirrored_seq": (
        "Seq of the checkpoint that Kafka's group offsets were written for",
        lambda m: m.mirrored_seq,
    ),
}
_OF_LEDGER: dict[str, tuple[str, Callable[[InLedger], Number]]] = {
    "tidemark_retries": (
        "Drivers of the last day that joined a run in place of an earlier one",
        lambda k: k.retries,
    ),
    "tidemark_hidden_offsets": (
        "Offsets that a transaction hides which has been open since an earlier run",
        lambda k: k.hidden.offsets,
    ),
    "tidemark_hidden_timestamp_seconds": (
        "When a run first saw that transaction",
        lambda k: k.hidden.since.timestamp() if k.hidden.since else None,
    ),
}
_OF_MEMBER: dict[str, tuple[str, Callable[[ShownMember], Number]]] = {
    "tidemark_member_partitions": (
        "Partitions that the member is assigned",
        lambda m: len(m.partitions),
    ),
    "tidemark_member_drain_seconds": (
        "How long the member's last drain took",
        lambda m: None if m.drain_ms is None else m.drain_ms / 1000,
    ),
}


def metrics_of(measured: Iterable[Measures]) -> Iterator[Metric]:
    """The metrics of all regions; what is not known of one has no sample."""
    whole = list(measured)
    found = [one.status for one in whole]
    states = [(one.region, {one.state: 1}) for one in found]
    yield _by_kind("tidemark_state", "1 for the state that the region is in", "state", states)
    levels = [(one.region, {str(verdict_of(one).level): 1}) for one in found]
    yield _by_kind("tidemark_verdict", "1 for the level of the verdict", "level", levels)
    for named, things in (
        (_OF_REGION, [((one.region,), one) for one in found]),
        (_OF_BATCH, [((one.region,), one.newest) for one in found if one.newest]),
    ):
        yield from _families(named, ["region"], things)
    outputs = [
        ((one.region, " and ".join(one.output.topics.names)), one.output)
        for one in found
        if one.output
    ]
    yield from _families(_OF_OUTPUT if outputs else {}, ["region", "topic"], outputs)
    targets = [((one.region, each.table), each) for one in found for each in one.targets]
    yield from _families(_OF_TARGET, ["region", "table"], targets)
    partitions = [
        ((one.region, each.topic, str(each.partition)), each)
        for one in found
        for each in one.partitions
    ]
    yield from _families(_OF_PARTITION, ["region", "topic", "partition"], partitions)
    members = [((one.region, each.name), each) for one in found for each in one.members]
    yield from _families(_OF_MEMBER, ["region", "member"], members)
    yield from _of_starts(found)
    yield from _measured(whole)


def _of_starts(found: Sequence[RegionStatus]) -> Iterator[Metric]:
    """Opens that were refused, and doorbells."""
    refused = GaugeMetricFamily(
        "tidemark_open_refused_timestamp_seconds",
        "When the newest open was refused, while nothing has opened since",
        labels=["region", "code"],
    )
    looks = GaugeMetricFamily(
        "tidemark_doorbell_up", "1 if the doorbell can look, else 0", labels=["region"]
    )
    said = GaugeMetricFamily(
        "tidemark_doorbell_timestamp_seconds",
        "When the doorbell told the ledger so; each minute, while the triggerer runs",
        labels=["region"],
    )
    for one in found:
        if (open_ := one.starts.refused) is not None:
            refused.add_metric([one.region, open_.code], open_.at.timestamp())
        if (bell := one.starts.doorbell) is not None:
            looks.add_metric([one.region], float(bell.code is None))
            said.add_metric([one.region], bell.at.timestamp())
    yield from (family for family in (refused, looks, said) if family.samples)


def _measured(found: Sequence[Measures]) -> Iterator[Metric]:
    """Of what is counted beside the status."""
    yield from _families(_OF_MEASURES, ["region"], [((one.status.region,), one) for one in found])
    kept = [(one.status, one.in_ledger) for one in found if one.in_ledger]
    yield from _families(_OF_LEDGER, ["region"], [((one.region,), each) for one, each in kept])
    runs = [(one.region, each.runs) for one, each in kept]
    yield _by_kind("tidemark_runs", "Runs that the last day opened, by state", "state", runs)
    dead_letters = [(one.region, _with_others(one, each.dead_letters)) for one, each in kept]
    yield _by_kind("tidemark_dead_letters_by_reason", "Those, by reason", "reason", dead_letters)
    yield _oldest_gauge(found)
    yield from durations_of({one.region: each.durations for one, each in kept})


def _with_others(status: RegionStatus, dead_letters: Mapping[str, int]) -> dict[str, int]:
    """With what is left of all dead letters: other reasons, and letters that are not looked at."""
    left = (status.dead_letters or 0) - sum(dead_letters.values())
    return (
        {**dead_letters, OTHER: dead_letters.get(OTHER, 0) + left}
        if left > 0
        else dict(dead_letters)
    )


def _oldest_gauge(found: Sequence[Measures]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "tidemark_oldest_unread_timestamp_seconds",
        "Time of the first unread record, where there is one and it is known",
        labels=["region", "topic", "partition"],
    )
    for one in found:
        for where, at in one.oldest.items():
            family.add_metric([one.status.region, where.topic, str(where.partition)], at / 1000)
    return family


def _by_kind(
    name: str, meaning: str, label: str, counts: Iterable[tuple[str, Mapping[str, int]]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, meaning, labels=["region", label])
    for region, kinds in counts:
        for kind, count in kinds.items():
            family.add_metric([region, kind], count)
    return family


def _families(
    named: Mapping[str, tuple[str, Callable[[Any], Number]]],
    labels: list[str],
    things: Sequence[tuple[tuple[str, ...], Any]],
) -> Iterator[GaugeMetricFamily]:
    for name, (meaning, value_of) in named.items():
        family = GaugeMetricFamily(name, meaning, labels=labels)
        for values, thing in things:
            value = value_of(thing)
            if value is not None:
                family.add_metric(list(values), float(value))
        yield family
