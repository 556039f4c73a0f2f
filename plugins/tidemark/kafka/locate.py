"""Where a corrupt batch begins and ends: for the error, and before a person leaves it out."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tidemark.errors import CorruptRecord, Refused
from tidemark.kafka.corrupt import DIED, UNTOLD, extent
from tidemark.kafka.facts import Broker
from tidemark.kafka.probe import probing
from tidemark.model.corruption import leave_out
from tidemark.model.offsets import Offsets, Span, TopicPartition


@contextmanager
def located(config: Mapping[str, Any]) -> Iterator[None]:
    """A CorruptRecord that comes out of the block names the range of its batch, and the way on."""
    try:
        yield
    except CorruptRecord as error:
        if not error.where:
            raise
        topic, number, offset = error.where
        partition = TopicPartition(topic, number)
        log_end = Broker(config).facts([topic]).ends[partition]
        with probing(config, partition) as met_at:
            span = Span(*partition, offset, extent(met_at, offset, log_end))
        raise CorruptRecord(f"{error}; {leave_out(span)}", *error.where) from error


def confirm_corrupt(config: Mapping[str, Any], ranges: Sequence[Span], ends: Offsets) -> None:
    """The first and the last offset of each range lie in one batch that is corrupt.

    Raises:
        Refused: one of them can be read, they lie in different batches, or Kafka does not answer.
    """
    for span in ranges:
        if fault := _fault(config, span, ends.get(span.topic_partition, span.end)):
            raise Refused(
                f"{span} is not left out: {fault}. Nothing was changed. Run without"
                " --accept-corrupt: CORRUPT_RECORD then names the range, if it is still corrupt"
            )


def _fault(config: Mapping[str, Any], span: Span, log_end: int) -> str | None:
    """Why the range is not exactly what can't be read; None if it is, or a part from its start."""
    with probing(config, span.topic_partition) as met_at:
        first, last = met_at(span.start), met_at(span.end - 1)
        after = None if span.end >= log_end else met_at(span.end)
    if first is None or last is None:
        return f"offset {span.start if first is None else span.end - 1} can be read"
    if first == UNTOLD or (min(first, last) < 0 and after is not None):
        return "Kafka neither tells which batch lies there nor gives a record behind it"
    if last != first and last not in (UNTOLD, DIED):
        return f"it holds two corrupt batches, one begins at {last}; name each"
    return None
