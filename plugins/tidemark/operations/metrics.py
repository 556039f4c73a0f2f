"""A region's status as Prometheus metrics: gauges of what the ledger and Kafka say now.

They tell what stands, so a rewind lowers them and a scrape missed loses nothing. Names and units
follow Prometheus' conventions; ages are left to `time() - tidemark_checkpoint_timestamp_seconds`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import GaugeMetricFamily

from tidemark.ledger.looks import Published, ShownMember
from tidemark.operations.output_status import OutputStatus
from tidemark.operations.status import PartitionStatus, RegionStatus, TargetStatus

Number = float | None
_OF_REGION: dict[str, tuple[str, Callable[[RegionStatus], Number]]] = {
    "tidemark_up": ("1 if ledger and Kafka could be asked, else 0", lambda r: not r.problem),
    "tidemark_epoch": ("Epoch: each open and each reset takes a new one", lambda r: r.epoch),
    "tidemark_head_seq": ("Seq of the newest checkpoint", lambda r: r.head_seq),
    "tidemark_consecutive_resets": ("Resets since a publish", lambda r: r.consecutive_resets),
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
}
_OF_TARGET: dict[str, tuple[str, Callable[[TargetStatus], Number]]] = {
    "tidemark_target_rows": ("Rows of the retained checkpoints", lambda t: t.ledger),
}
_OF_PARTITION: dict[str, tuple[str, Callable[[PartitionStatus], Number]]] = {
    "tidemark_lag_offsets": ("Offsets that the ledger has not passed", lambda p: p.lag),
    "tidemark_drift_offsets": ("Kafka's group offset less the ledger's", lambda p: p.drift),
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


def metrics_of(regions: Iterable[RegionStatus]) -> Iterator[GaugeMetricFamily]:
    """The metrics of all regions; what is not known of one has no sample."""
    found = list(regions)
    states = GaugeMetricFamily(
        "tidemark_state", "1 for the state that the region is in", labels=["region", "state"]
    )
    for one in found:
        states.add_metric([one.region, one.state], 1)
    yield states
    for named, things in (
        (_OF_REGION, [((one.region,), one) for one in found]),
        (_OF_BATCH, [((one.region,), one.newest) for one in found if one.newest]),
    ):
        yield from _families(named, ["region"], things)
    outputs = [((one.region, one.output.topic), one.output) for one in found if one.output]
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
