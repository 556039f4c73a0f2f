"""How long batches took, as histograms.

Prometheus' histograms are counters, which never fall; the ledger prunes and rewinds. So these are
histograms of gauges (OpenMetrics: gaugehistogram): the checkpoints of the last day, as they stand.
`histogram_quantile(0.95, name_bucket)` takes them as they are, without `rate`.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate

from prometheus_client.core import GaugeHistogramMetricFamily

from tidemark.ledger.looks import Durations

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
