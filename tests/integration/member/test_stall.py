"""How long members wait for partitions that somebody else holds."""

from collections.abc import Callable
from threading import Timer
from typing import Any

import pytest
from tests.support.stranger import holder_beside
from tests.support.world import World

from tidemark.errors import NoProgress
from tidemark.kafka.names import client_id_of
from tidemark.member import stall as stall

SECONDS = 40


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strangers are waited for as briefly as a test can bear."""
    monkeypatch.setattr(stall, "FOREIGN_SECONDS", 1.0)


@pytest.fixture
def lone(kafka: str, warehouse: dict[str, Any], topic: Callable[..., str], group: str) -> World:
    """An open run over one partition: who holds that leaves nothing to others."""
    world = World(kafka, warehouse, topic(partitions=1), group)
    world.produce(3)
    world.open()
    return world


@pytest.fixture
def shared(world: World) -> World:
    """An open run over two partitions: a batch is planned whoever holds one of them."""
    for partition in (0, 1):
        world.produce(3, partition)
    world.open()
    return world


def test_a_stranger_that_leaves_nobody_a_partition_to_plan_for_fails_the_run(lone: World) -> None:
    """S4, H12: nobody plans, and the wait is bounded all the same."""
    with holder_beside(lone):
        member = lone.member()
        with pytest.raises(NoProgress) as error:
            member.result(SECONDS)
    text = str(error.value)
    assert "no batch was planned" in text
    assert f"{lone.topic}[0]@[0, 3)" in text
    assert "console on" in text
    assert lone.sql("SELECT count(*) FROM tidemark.batches") == [(0,)]
    lone.drain()
    assert lone.close().rows == 3


@pytest.mark.parametrize("region", ["lone", "shared"])
def test_a_member_of_an_earlier_run_is_waited_for_like_one_of_this(
    region: str, request: pytest.FixtureRequest
) -> None:
    """One that was killed stays in the group until its session ends: up to 45 s with KIP-848."""
    world: World = request.getfixturevalue(region)
    world.settings = {"no_progress_seconds": 30}
    with holder_beside(world, client_id_of(world.region, 4711)) as leave:
        Timer(5, leave.set).start()
        rows = world.drain().rows
    assert world.close().rows == rows == len(world.rows()) > 0


@pytest.mark.parametrize("region", ["lone", "shared"])
def test_a_member_of_an_earlier_run_that_stays_is_named_in_the_end(
    region: str, request: pytest.FixtureRequest
) -> None:
    world: World = request.getfixturevalue(region)
    world.settings = {"no_progress_seconds": 4}
    with holder_beside(world, client_id_of(world.region, 4711)):
        member = world.member()
        with pytest.raises(NoProgress, match=rf"for [4-9] s.*tidemark-{world.region}-4711 on"):
            member.result(SECONDS)
