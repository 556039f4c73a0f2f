"""A region of each test's own: a copy of the one that its file made, or one made for it alone."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.commands import settle_in
from tests.support.filled import copied, filled, twin
from tests.support.topics import create_topic
from tests.support.world import World

from tidemark_local.stack import LocalStack

Make = Callable[[World], World]


@pytest.fixture(scope="module")
def make() -> Make:
    """What becomes of a new world before a test has it; a file may have its own."""
    return filled


@pytest.fixture(scope="module")
def origin(kafka: str, admin: AdminClient, stack: LocalStack, make: Make) -> Iterator[World]:
    """The region of which a file's tests have copies, all with its topic."""
    name = f"origin_{uuid.uuid4().hex[:12]}"
    create_topic(admin, NewTopic(name, 2, 1))
    with copied(stack) as parameters:
        yield make(World(kafka, parameters, name, name))
    admin.delete_topics([name])[name].exception(120)


@pytest.fixture
def region(
    request: pytest.FixtureRequest,
    stack: LocalStack,
    group: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[World]:
    """A region in a project, a database and a group of its own.

    Its topic is the file's: a test that produces, or deletes records, is marked GROWS (below) and
    has one of its own.
    """
    if hasattr(request, "param"):
        world = request.getfixturevalue("make")(request.getfixturevalue("world"))
        settle_in(world, tmp_path, monkeypatch)
        yield world
        return
    with twin(request.getfixturevalue("origin"), stack, group) as world:
        settle_in(world, tmp_path, monkeypatch)
        yield world


GROWS = pytest.mark.parametrize("region", ["alone"], indirect=True)
"""The topic of the test's region is its own."""
