"""What a mirror does with calls of Kafka's client that keep no time-out."""

from collections.abc import Iterator
from threading import Event
from unittest.mock import create_autospec

import pytest
from confluent_kafka import Producer

from tidemark.kafka import _mirror_writer as mirror_writer
from tidemark.kafka._mirror_writer import MirrorWriter
from tidemark.kafka.errors import BrokersSilent
from tidemark.model.offsets import TopicPartition

LONG = 5
"""Seconds of a call that never ends, so that a test without the guard does."""


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[Event]:
    """What a call of the client waits for; no time is given to it."""
    monkeypatch.setattr(mirror_writer, "SECONDS", 0)
    monkeypatch.setattr(mirror_writer, "GRACE_SECONDS", 0)
    yield (event := Event())
    event.set()


def test_a_call_that_the_client_never_ends_is_left_alone(stuck: Event) -> None:
    """G132, S25"""
    with pytest.raises(BrokersSilent) as met:
        mirror_writer.bounded(lambda: stuck.wait(LONG), "offsets")
    assert met.value.what == "offsets"


def test_a_call_that_ends_raises_what_is_its_own() -> None:
    """G132: or nothing."""
    mirror_writer.bounded(lambda: None, "offsets")
    with pytest.raises(ZeroDivisionError):
        mirror_writer.bounded(lambda: 1 // 0, "offsets")


def test_a_mirror_is_not_committed_whose_offsets_are_never_sent(stuck: Event) -> None:
    """G132, S25: it ends all the same."""
    producer = create_autospec(Producer, instance=True)
    producer.send_offsets_to_transaction.side_effect = lambda *_: stuck.wait(LONG)
    with pytest.raises(BrokersSilent) as met:
        MirrorWriter(producer, b"").commit({TopicPartition("t", 0): 1}, "")
    assert met.value.what == "offsets of 1 partition"
    producer.commit_transaction.assert_not_called()
