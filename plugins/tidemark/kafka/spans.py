"""Reading one span: every visible record of [start, end), or an error; never a part in silence."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from confluent_kafka import Message

from tidemark.errors import CorruptRecord, DataLost, Unreachable
from tidemark.kafka.corrupt import UNTOLD, Unreadable
from tidemark.kafka.reading import Reading
from tidemark.model.offsets import LogPosition, Span

_PROBE_SECONDS = 5.0


def read_span(
    config: Mapping[str, Any],
    span: Span,
    *,
    read_up_to: LogPosition | None = None,
    no_progress_seconds: float = 60.0,
) -> Iterator[list[Message]]:
    """Yield all visible records of the span in order, in lists; none outside it.

    Exhausted means complete: the position is known to have passed or reached the end, however
    many offsets of the span hold no record (markers, aborted or compacted records). Memory is
    bounded by the queue settings, not by the span. `read_up_to` is the position after the last
    record before the span: fetching begins there, so that a rewritten log is noticed (KIP-320).
    The epoch of that record says nothing of a later offset: markers may be of a newer leader.

    Raises:
        CorruptRecord: what comes next is corrupt; all before it was yielded. The consumer lives on
            without purpose, and the process should end.
        DataLost: Kafka does not hold a needed offset, or holds another history there.
        Unreachable: the position did not move for `no_progress_seconds`, or the login is refused.
    """
    reading = Reading(config, span, read_up_to, no_progress_seconds)
    try:
        yield from reading.lists()
    except Unreadable as error:
        raise CorruptRecord(
            f"{span.topic_partition}@{reading.position} is corrupt in Kafka: {error}. Nothing was"
            " skipped. Restore the records, then run again",
            *span.topic_partition,
            reading.position,
        ) from error


def met_in(
    config: Mapping[str, Any], span: Span, tell: Callable[[int], None]
) -> tuple[int, int | None]:
    """Up to where the span can be read, and what reading it meets there: None is its end.

    Else the first offset of a corrupt batch; or UNTOLD, also if for 5 s nothing came at all.
    `tell` hears each position. After a corrupt batch the process must end.
    """
    reading = Reading(config, span, None, _PROBE_SECONDS)
    try:
        for _ in reading.lists():
            tell(reading.position)
    except Unreadable as error:
        return reading.position, error.batch
    except (DataLost, Unreachable):
        return reading.position, UNTOLD
    return reading.position, None
