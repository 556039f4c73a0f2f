"""A region that has something of everything, and copies of its database for tests to doctor."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from copy import deepcopy
from typing import Any
from uuid import uuid4

import psycopg2
from tests.support.executor import BAD
from tests.support.produce import numbered, produce, produce_transaction
from tests.support.world import World

from tidemark.admin.mirror import mirror_region
from tidemark_local.postgres import ADMIN
from tidemark_local.stack import LocalStack


def filled(world: World) -> World:
    """The region has three batches in two partitions, two dead letters and aborted records."""
    produce(world.kafka, world.topic, [*numbered(9), BAD, *numbered(3, 20)], 0)
    produce_transaction(world.kafka, world.topic, numbered(4, 100), 1, abort=True)
    produce_transaction(world.kafka, world.topic, [*numbered(5, 200), BAD], 1)
    world.run(max_records=10)
    return world


@contextmanager
def copied(stack: LocalStack, template: str = "template1") -> Iterator[dict[str, Any]]:
    """A database made like another one, which nobody may use meanwhile; dropped at the end."""
    owner, name = stack.postgres.parameters("warehouse"), f"test_{uuid4().hex[:12]}"
    with closing(psycopg2.connect(**stack.postgres.parameters("postgres", ADMIN))) as server:
        server.autocommit = True
        cursor = server.cursor()
        cursor.execute(f"CREATE DATABASE {name} OWNER {owner['user']} TEMPLATE {template}")
        yield owner | {"dbname": name}
        cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def twin(origin: World, stack: LocalStack, name: str) -> Iterator[World]:
    """The region under another name, in a group and a database of its own; its topic is shared."""
    with copied(stack, template=origin.warehouse["dbname"]) as parameters:
        settings = deepcopy(origin.settings)
        world = World(origin.kafka, parameters, origin.topic, name, settings)
        world.sql("UPDATE tidemark.regions SET region = %s, group_id = %s", (name, name))
        mirror_region(world.pipeline, world.connections, check=False)
        yield world
