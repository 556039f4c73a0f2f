"""Failpoints of this process, switched on for a block."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidemark import failpoints


@contextmanager
def failpoint(name: str, action: str = "raise", at_hit: int = 1) -> Iterator[None]:
    """Inside the block the failpoint does `action` when it is reached for the nth time."""
    failpoints.reached.clear()
    os.environ[failpoints.VARIABLE] = f"{name}={action}@{at_hit}"
    try:
        yield
    finally:
        del os.environ[failpoints.VARIABLE]


@contextmanager
def meanwhile(name: str, act: Callable[[], object]) -> Iterator[None]:
    """Inside the block somebody else acts when the failpoint is first reached."""
    hit, acted, wanted = failpoints.hit, list[str](), name

    def hit_and_act(name: str) -> None:
        hit(name)
        if name == wanted and not acted:
            acted.append(name)
            act()

    failpoints.hit = hit_and_act
    try:
        yield
    finally:
        failpoints.hit = hit
    assert acted, f"{name} was never reached"
