"""Databases of the protocol's tests: their ledger is there before the first open."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.databases import database_of
from tests.support.filled import copied

from tidemark.ledger.migrate import migrate
from tidemark.local.stack import LocalStack
from tidemark.postgres.transaction import connect


@pytest.fixture(scope="session")
def migrated(stack: LocalStack) -> Iterator[str]:
    """A database with a ledger of no region, which nobody is connected to."""
    for parameters in database_of(stack.postgres):
        engine = connect(parameters)
        migrate(engine)
        engine.dispose()
        yield parameters["dbname"]


@pytest.fixture
def warehouse(stack: LocalStack, migrated: str) -> Iterator[dict[str, Any]]:
    """A database of this test's own, with a ledger: to make one takes as long as three opens."""
    with copied(stack, migrated) as parameters:
        yield parameters
