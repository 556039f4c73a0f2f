"""What a mirror does with calls of Kafka's client that keep no time-out."""

from threading import Event

import pytest

from tidemark.kafka import group
from tidemark.kafka.errors import BrokersSilent


def test_a_call_that_the_client_never_ends_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """G132, S25: what it raises and what it ends with are those of the call otherwise."""
    group.bounded(lambda: None, "offsets")
    with pytest.raises(ZeroDivisionError):
        group.bounded(lambda: 1 // 0, "offsets")
    monkeypatch.setattr(group, "SECONDS", 0)
    monkeypatch.setattr(group, "GRACE_SECONDS", 0)
    stuck = Event()
    with pytest.raises(BrokersSilent) as met:
        group.bounded(stuck.wait, "offsets")
    stuck.set()
    assert met.value.what == "offsets"
