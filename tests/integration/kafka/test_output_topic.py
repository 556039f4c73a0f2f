"""The newest batch in an output topic: its tails tell, however much lies before them."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer

from tidemark.kafka import output_topic
from tidemark.kafka.output_topic import OutputTopics
from tidemark.kafka.spans import read_spans
from tidemark.model.offsets import Span, TopicPartition
from tidemark.protocol.errors import OutputTailsUnread

Send = Callable[[str, range, int], None]


@pytest.fixture
def sink(topic: Callable[..., str]) -> str:
    return topic(partitions=2)


@pytest.fixture
def send(kafka: str, sink: str) -> Send:
    """Send records of a region with these seqs to a partition."""
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 5})

    def sent(region: str, seqs: range, partition: int = 0) -> None:
        for seq in seqs:
            headers: list[Any] = [("region", region.encode()), ("seq", str(seq).encode())]
            producer.produce(sink, b"{}", partition=partition, headers=headers)
            producer.poll(0)
        assert producer.flush(120) == 0

    return sent


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Span]:
    """The spans that are read, few offsets at once."""
    monkeypatch.setattr(output_topic, "TAIL", 10)
    found: list[Span] = []

    def noted(config: Any, spans: Sequence[Span]) -> Any:
        found.extend(spans)
        return read_spans(config, spans)

    monkeypatch.setattr(output_topic, "read_spans", noted)
    return found


def test_the_tail_of_each_partition_is_read_and_no_more(
    kafka: str, sink: str, send: Send, read: list[Span]
) -> None:
    """B9, G100: whatever the size of the topic."""
    send("r", range(1, 3001), 0)
    send("r", range(3001, 3003), 1)
    topics = OutputTopics({"bootstrap.servers": kafka}, [sink])
    assert topics.newest_seq("r") == 3002
    assert sorted(read) == [Span(sink, 0, 2990, 3000), Span(sink, 1, 0, 2)]


def test_what_others_have_sent_since_is_read_back_over(
    kafka: str, sink: str, send: Send, read: list[Span]
) -> None:
    send("r", range(1, 101), 0)
    send("another", range(500, 560), 0)
    topics = OutputTopics({"bootstrap.servers": kafka}, [sink])
    assert topics.newest_seq("r") == 100
    assert topics.newest_seq("nobody") is None


def test_a_topic_that_is_full_of_others_is_not_searched_for_ever(
    kafka: str, sink: str, send: Send, read: list[Span], monkeypatch: pytest.MonkeyPatch
) -> None:
    """B16: a person says where the region stands."""
    send("another", range(1, 101), 0)
    monkeypatch.setattr(output_topic, "TAIL_SECONDS", -1)
    with pytest.raises(OutputTailsUnread) as refused:
        OutputTopics({"bootstrap.servers": kafka}, [sink]).newest_seq("r")
    assert refused.value.partitions == (TopicPartition(sink, 0),)
