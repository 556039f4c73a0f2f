"""Clients that are kept for whoever needs one next; several threads may ask at once."""

from typing import TypeVar

T = TypeVar("T")


def taken(kept: list[T]) -> T | None:
    """A client that nobody uses; no other thread gets the same."""
    try:
        return kept.pop()
    except IndexError:
        return None
