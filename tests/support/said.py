"""Errors with a text of the test's own."""

from typing import TypeVar

from tidemark.errors import TidemarkError

E = TypeVar("E", bound=TidemarkError)


def said(kind: type[E], text: str) -> E:
    """An error of the code, with the text."""
    error = kind()
    error.args = (text,)
    return error
