"""B22: how long batches took, in OpenMetrics' own words."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tidemark.ledger.queries import Durations
from tidemark.views.metrics import durations_of


class Told:
    """A collector of two batches; one is at a bound, and one beyond all of them."""

    def collect(self) -> Iterator[Metric]:
        return durations_of({"r": [Durations(1.0, 0.5, 0.0), Durations(4000.0, 3600.0, 0.0)]})


def test_they_are_histograms_of_gauges() -> None:
    """B22: no counter, for it may fall; a bound is in its bucket, as Prometheus wants it."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Told())
    text = generate_latest(registry).decode()  # type: ignore[no-untyped-call]  # not annotated
    families = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]  # neither
    found = {one.name: one for one in families}
    assert {one.type for one in found.values()} == {"gaugehistogram"}
    buckets = {
        one.labels.get("le"): one.value
        for one in found["tidemark_batch_duration_seconds"].samples
        if one.name.endswith("_bucket")
    }
    assert (buckets["0.5"], buckets["1.0"], buckets["3600.0"], buckets["+Inf"]) == (0, 1, 1, 2)
