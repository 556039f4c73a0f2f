"""Logs that were rewritten: Kafka is asked whether it still has what was read (KIP-320)."""

from collections.abc import Mapping
from time import monotonic
from typing import Any

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as KafkaPartition

from tidemark.kafka.config import reader_config
from tidemark.kafka.errors import LeadersSilent
from tidemark.model.offsets import LogPosition, TopicPartition

SECONDS = 30.0
"""How long the leaders of all partitions may take to answer."""

_REWRITTEN = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}
_LITTLE = {"queued.min.messages": 1, "queued.max.messages.kbytes": 1}


def rewritten(
    config: Mapping[str, Any], positions: Mapping[TopicPartition, LogPosition]
) -> frozenset[TopicPartition]:
    """The partitions whose log does not lead to the position any more.

    A record or the end of the partition proves that it does: the client validates the position
    before it fetches from there. Positions outside the log are not to be asked for.

    Raises:
        Unreachable: some leader gave no answer.
    """
    consumer = Consumer(reader_config(config) | _LITTLE)
    waiting, found = dict(positions), set()
    deadline = monotonic() + SECONDS
    try:
        consumer.assign([KafkaPartition(*tp, at, "", epoch) for tp, (at, epoch) in waiting.items()])
        while waiting:
            if monotonic() > deadline:
                raise LeadersSilent(partitions=tuple(waiting), seconds=SECONDS)
            event = consumer.poll(0.5)
            if event is None or event.topic() is None:
                continue
            tp, error = TopicPartition(event.topic(), event.partition()), event.error()
            if error and error.code() in _REWRITTEN:
                found.add(tp)
            if not error or error.code() in {*_REWRITTEN, KafkaError._PARTITION_EOF}:
                waiting.pop(tp, None)
                consumer.incremental_unassign([KafkaPartition(*tp)])
    finally:
        consumer.close()
    return frozenset(found)
