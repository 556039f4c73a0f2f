"""A real broker that has just made a topic does not lead its partitions yet, one by one it does."""

from collections.abc import Callable, Collection
from typing import Any

import pytest
from confluent_kafka import Producer

from tidemark.kafka.admin import Admin
from tidemark.kafka.facts import Broker
from tidemark.model.offsets import TopicPartition

PARTITIONS = 300


def test_a_record_that_comes_while_a_time_is_looked_for_is_read(
    kafka: str, topic: Callable[..., str]
) -> None:
    """S5, G146: no record as late as that is there yet, and one comes before the next question."""
    name = topic(partitions=1)
    at = TopicPartition(name, 0)

    class Growing(Broker):
        def _offsets(self, *asked: Any) -> dict[TopicPartition, int]:
            found = super()._offsets(*asked)
            producer = Producer({"bootstrap.servers": kafka})
            producer.produce(name, b"late", partition=0)
            producer.flush(120)
            return found

    broker = Growing({"bootstrap.servers": kafka})
    assert broker.offsets_at([at], 1_000) == {at: 0}


@pytest.mark.long
def test_partitions_of_a_topic_that_was_just_made_are_asked_for_together(
    kafka: str, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 5,000 an open took six minutes when each was asked for by a request of its own."""
    asked, ask = list[int](), Admin.list_offsets

    def listed(admin: Admin, wanted: Collection[object], **how: Any) -> Any:
        asked.append(len(wanted))
        return ask(admin, wanted, **how)

    monkeypatch.setattr(Admin, "list_offsets", listed)
    name = topic(partitions=PARTITIONS)
    facts = Broker({"bootstrap.servers": kafka}).facts([name])
    whole = {TopicPartition(name, number): 0 for number in range(PARTITIONS)}
    assert facts.log_starts == facts.ends == whole
    assert asked[:2] == [PARTITIONS] * 2
    assert len(asked) < PARTITIONS / 4
