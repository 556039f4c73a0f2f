"""Corrupt record batches: how the client tells of one, and how far it reaches."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from confluent_kafka import KafkaError

PASSING = {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._RETRY,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}
"""Errors of a partition after which the client asks again by itself."""

UNTOLD = -1
"""In place of a batch's first offset: nothing came that names one."""

DIED = -2
"""In place of a batch's first offset: what stands there kills or hangs the client."""


SAMPLES = 8
"""Offsets tried within a range that kills the client, beside those that its end is found by."""


class Unreadable(Exception):
    """What Kafka gave is no sound record batch, and the consumer that saw it may read no further.

    It goes on at offsets that it takes from the bytes of records.
    """

    def __init__(self, why: str, batch: int = UNTOLD, *, is_packed: bool = False) -> None:
        super().__init__(why)
        self.is_packed = is_packed
        """Its checksum is right, and it does not unpack within what the client takes."""
        self.batch = batch
        """Its first offset as the client tells it: the same wherever reading began."""


def disorder(offsets: Sequence[int], before: int, end: float) -> int | None:
    """The index of the first record whose offset can't be: not rising from `before`, or past `end`.

    A batch's first offset is not covered by its checksum.
    """
    rising = pairwise((before - 1, *offsets))
    return next((i for i, (last, one) in enumerate(rising) if not last < one < end), None)


def extent(found_at: Callable[[int], int | None], start: int, end: int) -> int:
    """Where the corrupt batch that `start` lies in ends; never too far.

    `found_at` says what reading from an offset meets first: the first offset of a corrupt batch,
    UNTOLD or DIED, or None for what can be read. Only offsets that lead to the batch of `start` are
    counted as its own; what kills the client names none, so offsets that all do are taken for one.
    """
    batch = found_at(start)
    if batch in (None, UNTOLD):
        return start + 1
    inside, outside = start, end
    while outside - inside > 1:
        step = min(2 * (inside - start) + 1, outside - inside - 1)
        tried = inside + step if outside == end else (inside + outside) // 2
        if found_at(tried) == batch:
            inside = tried
        else:
            outside = tried
    if batch == DIED:
        inner = range(start, inside, max(1, (inside - start) // SAMPLES))[1:]
        if (sound := next((at for at in inner if found_at(at) != DIED), None)) is not None:
            return extent(found_at, start, sound)
    return inside + 1
