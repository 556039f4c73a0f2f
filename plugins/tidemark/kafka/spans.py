"""Reading spans: every visible record of [start, end), or an error; never a part in silence."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import Message

from tidemark.errors import DataLost, Unreachable
from tidemark.kafka.corrupt import UNTOLD, Unreadable
from tidemark.kafka.errors import BatchUnreadable
from tidemark.kafka.reading import Progress, Reading
from tidemark.model.offsets import LogPosition, Span, TopicPartition

_PROBE_SECONDS = 5.0


def read_spans(
    config: Mapping[str, Any],
    spans: Sequence[Span],
    *,
    read_up_to: Mapping[TopicPartition, LogPosition] | None = None,
    no_progress_seconds: float = 60.0,
    max_unpacked: int | None = None,
) -> Iterator[list[Message]]:
    """Yield all visible records of the spans, none outside them, in lists of one span each.

    The spans, each of another partition, are read side by side; the records of one come in order.
    Exhausted means complete: each position is known to have passed or reached its end, however
    many offsets hold no record (markers, aborted or compacted records). Memory is bounded by the
    queue settings, not by the spans. `read_up_to` is the position after the last record before a
    span: fetching begins there, so that a rewritten log is noticed (KIP-320). The epoch of that
    record says nothing of a later offset: markers may be of a newer leader. `max_unpacked` are the
    bytes that a compressed batch may unpack to where the client's own limit is less.

    Raises:
        CorruptRecord: what comes next in a span is corrupt; all before it was yielded. The consumer
            lives on without purpose, and the process should end.
        DataLost: Kafka does not hold a needed offset, or holds another history there.
        Unreachable: a position did not move for `no_progress_seconds` of waiting, or the login is
            refused.
    """
    positions = read_up_to or {}
    parts = [Progress(span, positions.get(span.topic_partition)) for span in spans]
    reading = Reading(config, parts, no_progress_seconds, max_unpacked)
    try:
        yield from reading.lists()
    except Unreadable as error:
        stuck = next(part for part in parts if part.unreadable is error)
        raise BatchUnreadable(
            topic=stuck.span.topic,
            partition=stuck.span.partition,
            offset=stuck.position,
            cause=str(error),
            is_packed=error.is_packed,
        ) from error


def met_in(
    config: Mapping[str, Any], span: Span, tell: Callable[[int], None]
) -> tuple[int, int | None]:
    """Up to where the span can be read, and what reading it meets there: None is its end.

    Else the first offset of a corrupt batch; or UNTOLD, also if for 5 s nothing came at all.
    `tell` hears each position. After a corrupt batch the process must end.
    """
    part = Progress(span)
    try:
        for _ in Reading(config, [part], _PROBE_SECONDS).lists():
            tell(part.position)
    except Unreadable as error:
        return part.position, error.batch
    except (DataLost, Unreachable):
        return part.position, UNTOLD
    return part.position, None
