"""Pieces of Markdown for pages that are written from code."""

import textwrap
from collections.abc import Iterable, Mapping


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table, with a line break at its end."""
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines)


def filled(text: str) -> str:
    """A paragraph in lines of at most 100 characters."""
    flat = " ".join(text.split())
    return textwrap.fill(flat, 100, break_long_words=False, break_on_hyphens=False)


def listed(names: Iterable[str]) -> str:
    """Names as code."""
    return ", ".join(f"`{name}`" for name in names)


def assigned(settings: Mapping[str, object]) -> str:
    """Settings as a list of `key=value`."""
    return listed(f"{key}={spelled(value)}" for key, value in settings.items())


def spelled(value: object) -> str:
    """A value as a configuration file spells it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
