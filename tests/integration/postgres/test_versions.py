"""Every Postgres between the oldest and the newest: records come in, go back, and come again."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.databases import database_of
from tests.support.executor import BAD
from tests.support.produce import produce
from tests.support.server_settings import unknown_settings
from tests.support.sharing import worker
from tests.support.world import World

from tidemark_local._folder import Folder
from tidemark_local.postgres import Postgres, packaged
from tidemark_local.stack import LocalStack

pytestmark = pytest.mark.long  # with 18 and 15 all tests of Postgres run

PROGRAMS = {
    "16": packaged().parents[1] / "pginstall" / "bin",
    "17": Path("/usr/lib/postgresql/17/bin"),
}
"""The package of 18 carries 16 too; 17 is where Debian, Ubuntu and their likes install it."""
UPSERT = {"target": {"mode": "upsert", "key": ["kafka_offset"]}}


@pytest.fixture(scope="module", params=PROGRAMS)
def server(request: pytest.FixtureRequest, stack: LocalStack) -> Iterator[Postgres]:
    """A server of this version, which is gone at the end."""
    version, programs = request.param, PROGRAMS[request.param]
    if not (programs / "postgres").exists():
        pytest.skip(f"no PostgreSQL {version} in {programs}")
    state = stack.folder.root
    folder = Folder(state.with_name(f"{state.name}-{version}{worker()}"))
    folder.create()
    server = Postgres(folder, programs=programs)
    try:
        server.start()
        yield server
    finally:
        server.stop("immediate")
        server.erase()
        shutil.rmtree(folder.root, ignore_errors=True)


@pytest.mark.parametrize("settings", [{}, UPSERT], ids=["append", "upsert"])
def test_records_come_in_go_back_and_come_again(
    kafka: str,
    server: Postgres,
    topic: Callable[..., str],
    group: str,
    settings: dict[str, Any],
) -> None:
    for parameters in database_of(server):
        world = World(kafka, parameters, topic(), group)
        world.settings |= settings
        come_go_and_come(world)


def come_go_and_come(world: World) -> None:
    world.produce(3)
    world.run("first")
    produce(world.kafka, world.topic, [BAD])
    world.produce(2, start=3)
    world.run("second")
    for run_id in ("again", "at rest"):
        assert [offset for _, offset in world.rows()] == [0, 1, 2, 4, 5]
        assert world.dead_letters() == [(0, 3)]
        assert world.kafka_offsets() == world.ledger_offsets()
        world.reset(to=1)
        assert [offset for _, offset in world.rows()] == [0, 1, 2]
        assert world.dead_letters() == []
        world.run(run_id)


def test_nobody_has_left_a_setting_of_this_server_unjudged(server: Postgres) -> None:
    assert unknown_settings(server.parameters()) == set()
