"""A filled region of each test's own."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.commands import settle_in
from tests.support.filled import copied
from tests.support.world import World

from tidemark.local.stack import LocalStack


@pytest.fixture
def region(
    origin: World, stack: LocalStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    """The filled region in a copy of its database, in a project of its own."""
    with copied(stack, template=origin.warehouse["dbname"]) as parameters:
        world = replace(origin, warehouse=parameters, settings={}, executors=[])
        settle_in(world, tmp_path, monkeypatch)
        yield world
