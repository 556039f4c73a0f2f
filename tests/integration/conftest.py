"""The regions that integration tests drive: with Kafka, and without."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from sqlalchemy import Engine
from tests.support.cluster import Cluster
from tests.support.databases import database_of
from tests.support.desk import Desk
from tests.support.filled import copied, filled
from tests.support.roles import RoleWorld, granted, roles_on
from tests.support.sharing import worker
from tests.support.topics import create_topic
from tests.support.world import World

from tidemark.ledger.migrate import migrate
from tidemark.postgres.transaction import connect
from tidemark_local.stack import LocalStack


@pytest.fixture
def world(kafka: str, warehouse: dict[str, Any], topic: Callable[..., str], group: str) -> World:
    """A region with a topic of two partitions, a group and a database of its own."""
    return World(kafka, warehouse, topic(partitions=2), group)


@pytest.fixture
def role_prefix(stack: LocalStack) -> Iterator[str]:
    """The prefix of roles; who has one has it before the database, which goes first."""
    with roles_on(stack.postgres) as prefix:
        yield prefix


@pytest.fixture
def role_world(
    role_prefix: str,
    kafka: str,
    stack: LocalStack,
    warehouse: dict[str, Any],
    topic: Callable[..., str],
    group: str,
) -> RoleWorld:
    """A region with the roles of docs/roles.md, their grants and no others."""
    world = RoleWorld(kafka, warehouse, topic(partitions=2), group, prefix=role_prefix)
    return granted(world, stack.postgres)


@pytest.fixture(scope="module")
def origin(kafka: str, admin: AdminClient, stack: LocalStack) -> Iterator[World]:
    """One filled region of a file's tests; each works on a copy of its database."""
    name = f"filled_{uuid.uuid4().hex[:12]}"
    create_topic(admin, NewTopic(name, 2, 1))
    with copied(stack) as parameters:
        yield filled(World(kafka, parameters, name, name))
    admin.delete_topics([name])[name].exception(120)


@pytest.fixture(scope="module")
def cluster(stack: LocalStack) -> Iterator[Cluster]:
    """Three real brokers beside the stack's one; none of their processes is left at the end."""
    state = stack.folder.root
    cluster = Cluster(state.with_name(f"{state.name}-cluster{worker()}"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()


@pytest.fixture(scope="session")
def migrated(stack: LocalStack) -> Iterator[str]:
    """The name of a database with an empty ledger, to be copied: a migration costs ten copies."""
    with copied(stack) as parameters:
        migrate(engine := connect(parameters))
        engine.dispose()
        yield parameters["dbname"]


@pytest.fixture(scope="session", params=["18", pytest.param("15", marks=pytest.mark.long)])
def ledger_database(
    request: pytest.FixtureRequest, stack: LocalStack
) -> Iterator[tuple[Engine, dict[str, Any]]]:
    """A migrated database that many regions share; on Postgres 15 and 18."""
    new = request.param == "18"
    server = stack.postgres if new else request.getfixturevalue("old_server")
    for parameters in database_of(server):
        engine = connect(parameters)
        migrate(engine)
        yield engine, parameters
        engine.dispose()


@pytest.fixture
def desk(ledger_database: tuple[Engine, dict[str, Any]]) -> Desk:
    """A region with ten offsets in each of two partitions."""
    desk = Desk(*ledger_database)
    desk.grow(10, 0)
    desk.grow(10, 1)
    return desk
