"""Failpoints of this process, switched on for a block."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tidemark import failpoints


@contextmanager
def failpoint(name: str, action: str = "raise", at_hit: int = 1) -> Iterator[None]:
    """Inside the block the failpoint does `action` when it is reached for the nth time."""
    failpoints._hits.clear()
    os.environ[failpoints.VARIABLE] = f"{name}={action}@{at_hit}"
    try:
        yield
    finally:
        del os.environ[failpoints.VARIABLE]
