"""A fail-over of Postgres to a replica, with two real servers: one connection names both."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from tests.support.region import postgres_connection
from tests.support.replica import Pair
from tests.support.sharing import worker
from tests.support.waiting import until
from tests.support.world import World

from tidemark.check._logins import login_findings
from tidemark.check.findings import State
from tidemark.ledger.ledger import Ledger
from tidemark.postgres.errors import PostgresUnreachable
from tidemark.postgres.transaction import connect
from tidemark.spark._postgres import connected, postgres_errors
from tidemark_local.stack import LocalStack


@pytest.fixture
def pair(stack: LocalStack) -> Iterator[Pair]:
    """A primary and its replica; neither is left at the end."""
    state = stack.folder.root
    pair = Pair(state.with_name(f"{state.name}-replica{worker()}"))
    try:
        pair.start()
        yield pair
    finally:
        pair.end()


def test_after_a_fail_over_that_lost_commits_the_run_goes_on_from_the_ledger(
    kafka: str, pair: Pair, topic: Callable[..., str], group: str
) -> None:
    """B1: the replica lacks the newest checkpoint; its records are read again, and once.

    Before it takes over it is a standby, which a ledger and a task call unreachable.
    """
    world = World(kafka, pair.parameters, topic(partitions=2), group)
    world.produce(3)
    world.run("first")
    until(pair.is_level)
    pair.part()
    world.produce(3, start=3)
    world.run("lost")
    assert world.kafka_offsets()[world.partition()] == 6
    stands_by(world, pair)

    pair.fail_over()
    assert world.rows() == [(0, offset) for offset in range(3)]
    world.produce(1, start=6)
    opened = world.open("after")
    assert "the ledger is older than its mirror" in opened.remarks[0]
    assert opened.epoch > 2
    world.drain("after")
    world.close("after")
    assert world.rows() == [(0, offset) for offset in range(7)]
    assert world.kafka_offsets() == world.ledger_offsets()


def stands_by(world: World, pair: Pair) -> None:
    """A connection that leads to the standby alone says so."""
    alone = pair.replica.parameters()
    with (
        pytest.raises(PostgresUnreachable),
        Ledger(connect(alone)).deciding(world.region, 1, "close"),
    ):
        pass
    with (
        pytest.raises(PostgresUnreachable),
        postgres_errors(),
        closing(connected(alone)) as session,
        session.cursor() as cursor,
    ):
        cursor.execute("DELETE FROM public.records")


@pytest.mark.long
def test_a_check_tells_the_primary_from_its_standby(
    kafka: str, pair: Pair, topic: Callable[..., str], group: str
) -> None:
    """S01: executors write, readers may look at either."""
    world = World(kafka, pair.parameters, topic(), group)
    world.produce(1)
    world.run("first")
    until(pair.is_level)
    standby = replace(postgres_connection(pair.replica.parameters()), conn_id="standby")
    world.settings |= {"executors": {"warehouse": "standby"}, "readers": {"warehouse": "standby"}}
    known = world.connections | {"standby": standby}
    executors, readers = login_findings(world.pipeline, known.__getitem__)
    assert (executors.state, executors.remedy) == (
        State.failed,
        "let standby name the host, port and database of tidemark_warehouse",
    )
    assert readers.state is State.ok
