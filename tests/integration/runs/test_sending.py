"""Members that send to an output topic while another one has their turn and does not send."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from tests.support.clock import Clock
from tests.support.sent import another_sends, sent_to
from tests.support.waiting import until
from tests.support.world import World

from tidemark.runs import _drain as drain_module

SECONDS = 120
MOST = 300
"""output.max_seconds: nobody but a test's own clock comes there."""


@pytest.fixture
def region(world: World, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> World:
    """A region whose rows are sent; its members look around more often than in production."""
    monkeypatch.setattr(drain_module, "LONGEST_WAIT_SECONDS", drain_module.WAIT_SECONDS)
    sink: dict[str, Any] = {"topic": topic(partitions=1), "max_unsent": 2, "max_seconds": MOST}
    world.settings["output"] = sink
    return world


def seqs(region: World) -> list[int]:
    """Of the batches whose rows were sent."""
    return [one.seq for one in sent_to(region.kafka, region.settings["output"]["topic"])]


def has_published(region: World, batches: int) -> bool:
    """So many, and no more."""
    [(count,)] = region.sql("SELECT count(*) FROM tidemark.batches WHERE state = 'published'")
    return bool(count == batches)


def test_a_member_that_stands_still_while_it_sends_keeps_nobody_from_sending(
    region: World,
) -> None:
    """B9: nothing more was sent for as long as a transaction may take; planning goes on then."""
    region.produce(6)
    region.open(max_records=1)
    with another_sends(region):
        region.clock = clock = Clock()
        member = region.member()
        for unsent in (2, 4):
            until(partial(has_published, region, unsent))
            assert seqs(region) == [1, 2, 3, 4, 5, 6][: unsent - 2]
            clock.now += MOST + 1
        member.result(SECONDS)
        assert region.close().rows == 6
    assert seqs(region) == [1, 2, 3, 4, 5, 6]


def test_a_member_of_an_earlier_epoch_keeps_nobody_from_sending(region: World) -> None:
    """B9: one that lives on, stopped or in a network that is gone."""
    region.open("first")
    with another_sends(region):
        region.produce(4)
        region.open("second", max_records=1)
        region.member(run_id="second").result(SECONDS)
        assert seqs(region) == [1, 2, 3, 4]
    region.close("second")
