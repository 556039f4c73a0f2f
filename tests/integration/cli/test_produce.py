"""`tidemark local produce`: lines of a file become records."""

from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.support.commands import tidemark
from tests.support.region import kafka_connection


@pytest.fixture
def lines(kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file, and Kafka's connection in the environment."""
    monkeypatch.setenv(*kafka_connection(kafka).to_env())
    file = tmp_path / "lines.jsonl"
    file.write_bytes(b'{"u": "ada", "n": 1}\n\n{"u": 7, "n": 2}\r\n{"u": null}')
    return file


def records(kafka: str, topic: str, count: int, partitions: int) -> list[tuple[object, object]]:
    consumer = Consumer(
        {"bootstrap.servers": kafka, "group.id": "t", "auto.offset.reset": "smallest"}
    )
    consumer.assign([TopicPartition(topic, n, 0) for n in range(partitions)])
    found = consumer.consume(count, 120)
    consumer.close()
    return sorted((one.key(), one.value()) for one in found)


def test_each_line_is_a_record_of_a_topic_that_is_made(
    kafka: str, lines: Path, admin: AdminClient
) -> None:
    topic = f"made-{uuid4().hex}"
    told = tidemark("local", "produce", topic, str(lines), "--key", "u", "--partitions", "3")
    assert told.stdout == f"3 records sent to topic {topic}, 3 partitions\n"
    assert records(kafka, topic, 3, 3) == [
        (b"7", b'{"u": 7, "n": 2}'),
        (b"ada", b'{"u": "ada", "n": 1}'),
        (b"null", b'{"u": null}'),
    ]
    admin.delete_topics([topic])


@pytest.mark.long
@pytest.mark.parametrize(
    ("content", "topic_name", "said"),
    [
        (b'{"u": 1}\n{"v": 1}\n', "t", "line 2 is no JSON object with a field 'u'"),
        (b"[1]\n", "t", "line 1 is no JSON object with a field 'u'"),
        (b"{\n", "t", "line 1 is no JSON object with a field 'u'"),
        (b'{"u": "' + b"x" * 1_100_000 + b'"}', "t", "line 1: "),
        (b"{}\n", "no/topic", "topic 'no/topic': "),
    ],
)
def test_what_cannot_be_sent_is_told_by_its_line(
    lines: Path, content: bytes, topic_name: str, said: str
) -> None:
    lines.write_bytes(content)
    told = tidemark("local", "produce", topic_name, str(lines), "--key", "u", exits=2)
    assert f"INVALID_SETTINGS: {said}" in told.stderr
