"""Databases whose ledger is there, though empty: no test of this folder pays for a migration."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.filled import copied

from tidemark.local.stack import LocalStack


@pytest.fixture
def warehouse(stack: LocalStack, migrated: str) -> Iterator[dict[str, Any]]:
    """A database of this test's own, with an empty ledger."""
    with copied(stack, template=migrated) as parameters:
        yield parameters
