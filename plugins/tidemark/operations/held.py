"""What Kafka still holds of the records that a rewind would read again, and for how long."""

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tidemark.errors import Refused
from tidemark.kafka.retention import Retention, count_records, oldest_timestamp, retentions
from tidemark.ledger.settling import ReadAgain
from tidemark.model.offsets import Span, TopicPartition
from tidemark.operations.region import Region
from tidemark.protocol.reset import RewindPlan

log = logging.getLogger(__name__)

Tell = Callable[[str], None]
"""Takes how far it has come, every few seconds."""

TELL_SECONDS = 2.0
_READERS = 4


@dataclass(frozen=True, slots=True)
class Held:
    """What of a partition can't be read again, one text a fact, and when Kafka may delete it."""

    faults: tuple[str, ...] = ()
    seconds: int | None = None
    """Until the oldest needed record is due for deletion; None if it never is, or has no time."""


def held(region: Region, plan: RewindPlan, tell: Tell) -> dict[TopicPartition, Held]:
    """Look at each partition that would be read again; nobody is fenced meanwhile.

    Where compaction may take records, all that the ledger counted are counted again. Elsewhere the
    oldest span is: a topic that was compacted before has lost the oldest records first.
    """
    found: dict[TopicPartition, Held] = {}
    again = [one for one in region.ledger.read_again(region.name, plan.to_seq)
             if one.span.topic_partition in plan.places]  # fmt: skip
    settings = retentions(region.kafka, {one.span.topic for one in again}) if again else {}
    told = time.monotonic()
    with ThreadPoolExecutor(_READERS) as readers:
        looks = {
            one.span.topic_partition: readers.submit(_look, region.kafka, plan, one, settings)
            for one in again
        }
        for partition, look in looks.items():
            found[partition] = look.result()
            if time.monotonic() - told > TELL_SECONDS:
                told = time.monotonic()
                tell(f"counted what Kafka still holds in {len(found)} of {len(looks)} partitions")
    return found


def refuse_losses(region: str, found: Mapping[TopicPartition, Held]) -> None:
    """Refuse a rewind whose records would not all come back.

    Raises:
        Refused: with the ranges and the numbers.
    """
    faults = [fault for _, one in sorted(found.items()) for fault in one.faults]
    if faults:
        raise Refused(
            f"region {region} can't be rewound: {'; '.join(faults)}. Rows taken back would not all"
            " come again; nothing was changed. Rewind to a newer checkpoint, or lose them with"
            " --accept-data-loss"
        )


def _look(
    config: Mapping[str, str], plan: RewindPlan, again: ReadAgain, settings: Mapping[str, Retention]
) -> Held:
    retention, tp = settings[again.span.topic], again.span.topic_partition
    faults = []
    start = plan.places[tp].offset
    if retention.may_compact:
        if start < again.span.start:
            faults.append(
                f"{Span(*tp, start, again.span.start)} may have been compacted, and the ledger has"
                " forgotten how many records it held"
            )
        faults += _missing(config, again.span, again.records)
    else:
        faults += _missing(config, again.first, again.first_records)
    if retention.milliseconds is None:
        return Held(tuple(faults))
    seconds = _seconds(config, Span(*tp, start, again.span.end), retention.milliseconds)
    if seconds is not None and seconds <= 0:
        faults.append(
            f"{tp}@{start} is due for deletion since {-seconds} s by retention.ms"
            f" {retention.milliseconds}: raise it first"
        )
    return Held(tuple(faults), seconds)


def _missing(config: Mapping[str, str], span: Span, records: int) -> list[str]:
    left = count_records(config, span)
    if left >= records:
        return []
    return [f"{span} held {records} records and holds {left}: compaction took {records - left}"]


def _seconds(config: Mapping[str, str], span: Span, retention_ms: int) -> int | None:
    written = oldest_timestamp(config, span)
    return None if written is None else (written + retention_ms) // 1000 - int(time.time())
