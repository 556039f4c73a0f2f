"""Lines of a file as records of a topic, for first tries."""

import json
from collections.abc import Iterable, Mapping
from time import sleep
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tidemark.deadline import Deadline
from tidemark_local.errors import (
    LineNotSent,
    LinesNotAcknowledged,
    LineWithoutKey,
    LocalKafkaSilent,
    LocalTopicRefused,
)

SECONDS = 30
QUIET: Mapping[str, Any] = {"log_level": 0, "enable.idempotence": True, "linger.ms": 20}


def ensure_topic(config: Mapping[str, Any], topic: str, partitions: int) -> int:
    """The topic exists; how many partitions it has, which are those it had if it was there.

    Raises:
        InvalidSettings: no topic can have this name, or so many partitions.
        Unreachable: no broker answers.
    """
    admin = AdminClient({**config, "log_level": 0})
    try:
        return _partitions(admin, topic) or _created(admin, topic, partitions)
    except KafkaException as error:
        reason: KafkaError = error.args[0]
        if reason.code() in (KafkaError.TOPIC_EXCEPTION, KafkaError.INVALID_PARTITIONS):
            raise LocalTopicRefused(topic=topic, cause=reason.str()) from error
        raise LocalKafkaSilent(servers=config["bootstrap.servers"], cause=reason.str()) from error


def _partitions(admin: AdminClient, topic: str) -> int:
    """How many the topic has, as one broker knows it now; 0: it knows none of that name."""
    found = admin.list_topics(timeout=SECONDS).topics
    return len(found[topic].partitions) if topic in found else 0


def _created(admin: AdminClient, topic: str, partitions: int) -> int:
    """How many it has once a broker knows it, for creations are answered before that.

    Somebody else may have made it just before, with another number of partitions.
    """
    try:
        admin.create_topics([NewTopic(topic, partitions)])[topic].result(SECONDS)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    deadline = Deadline(SECONDS)
    while not (found := _partitions(admin, topic)):
        if deadline.is_past:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        sleep(0.05)
    return found


def produce_lines(
    config: Mapping[str, Any], topic: str, lines: Iterable[bytes], key: str | None = None
) -> int:
    """Each line is the value of a record; how many the brokers acknowledged, which are all.

    Empty lines are passed over. `key` names the field of a line's JSON object whose text is the
    record's key.

    Raises:
        InvalidSettings: a line has no such field, or is larger than the topic takes; the lines
            before it may be in the topic.
        Unreachable: the brokers did not acknowledge all.
    """
    producer = Producer({**config, **QUIET})
    refused: list[str] = []
    count = 0

    def told(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(error.str())

    for number, line in enumerate(lines, 1):
        if value := line.rstrip(b"\r\n"):
            _send(producer, topic, value, _key_of(value, key, number), number, told)
            count += 1
    if producer.flush(SECONDS) or refused:
        cause = refused[0] if refused else None
        raise LinesNotAcknowledged(topic=topic, cause=cause, seconds=SECONDS)
    return count


def _send(
    producer: Producer, topic: str, value: bytes, key: bytes | None, number: int, told: Any
) -> None:
    while True:
        try:
            producer.produce(topic, value, key, on_delivery=told)
            producer.poll(0)
            return
        except BufferError:
            producer.poll(0.1)
        except KafkaException as error:
            raise LineNotSent(line=number, cause=error.args[0].str()) from error


def _key_of(value: bytes, field: str | None, number: int) -> bytes | None:
    if field is None:
        return None
    try:
        found = json.loads(value)[field]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise LineWithoutKey(line=number, field=field) from error
    return (found if isinstance(found, str) else json.dumps(found)).encode()
