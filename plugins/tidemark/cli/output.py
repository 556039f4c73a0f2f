"""How results are printed: tables for people, pure JSON for programs, nothing that bites.

Progress goes to stderr, where a person looks; nothing of it where stderr is a file.
"""

import inspect
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, TextIO

import typer

from tidemark.model.plain import inert, plain

PIPE_WIDTH = 1000
"""Columns of a table that goes into a pipe: nothing is cut there."""


class ResultFormat(StrEnum):
    """How a result is printed."""

    table = "table"
    json = "json"


def _set_verbosity(verbose: bool) -> bool:
    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("tidemark").setLevel(logging.INFO if verbose else logging.WARNING)
    return verbose


_ASKED = "tidemark.output"


def _remembered(context: typer.Context, output: ResultFormat) -> ResultFormat:
    context.meta[_ASKED] = output
    if output is ResultFormat.json and sys.stdout and not context.resilient_parsing:
        context.find_root().with_resource(_stdout_of_answer())
    return output


_answer: ContextVar[TextIO | None] = ContextVar("_answer", default=None)
"""Stdout as it was, for the answer alone."""


@contextmanager
def _stdout_of_answer() -> Iterator[None]:
    """Inside, only the answer goes to stdout; what transforms and libraries print, to stderr."""
    token = _answer.set(_own_stdout())
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _answer.reset(token)


def _own_stdout() -> TextIO:
    """Where stdout led; of the process itself, children and C code write to stderr from now on."""
    sys.stdout.flush()
    if sys.stdout is not sys.__stdout__ or sys.stderr is None:
        return sys.stdout
    return _kept_stdout()


@cache
def _kept_stdout() -> TextIO:
    """For good: C code may write its buffer when the process ends."""
    own = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return own


def is_json(context: typer.Context) -> bool:
    """Whether the command that runs was asked for JSON; its groups' contexts know it too."""
    return context.meta.get(_ASKED) is ResultFormat.json


Format = Annotated[
    ResultFormat,
    typer.Option(
        "--output",
        "-o",
        callback=_remembered,
        help="How to print the result: a table, or JSON for programs (see docs/schemas).",
    ),
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        callback=_set_verbosity,
        help="Print each step, and the source of connections, on stderr.",
    ),
]


def text_of(data: bytes | None) -> str | None:
    r"""Bytes of a record as text; what is not UTF-8 is escaped (`\xff`)."""
    return None if data is None else data.decode("utf-8", "backslashreplace")


def in_utc(moment: datetime) -> str:
    """ISO 8601 with a blank, as Postgres prints it; a time without a zone is nobody's UTC."""
    if moment.tzinfo is None:
        return f"{moment:%Y-%m-%d %H:%M:%S}"
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"


def flowing(text: str | None) -> str:
    """Each paragraph on one line, for the terminal to wrap; indented ones are commands."""
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return "\n\n".join(
        "\n".join(f"$ {line.strip()}" for line in paragraph.splitlines())
        if paragraph.startswith("  ")
        else " ".join(paragraph.split())
        for paragraph in paragraphs
    )


def cut(text: str, length: int) -> str:
    """At most `length` characters, the last one an ellipsis where some are missing."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def print_json(value: object) -> None:
    """The value alone stands on stdout, as one JSON document in ASCII."""
    text = json.dumps(plain(value), indent=1, allow_nan=False)
    typer.echo(text, file=_answer.get())


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A plain table on stdout."""
    screen().print(table_of(columns, rows))


def table_of(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Any:
    """A plain table; numbers are flush right, None is an empty cell, markup is text."""
    from rich.table import Table
    from rich.text import Text

    cells = [list(row) for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        is_number = any(isinstance(row[number], int) for row in cells)
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(_cell(value)) for value in row))
    return table


def print_line(text: str, style: str = "") -> None:
    """One line on stdout, however long; markup and control characters are text."""
    from rich.text import Text

    screen().print(Text(inert(text), style=style), soft_wrap=True)


def screen() -> Any:
    """The console of stdout: as wide as the terminal, and without limit in a pipe."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return in_utc(value)
    return "" if value is None else inert(value)


Tell = Callable[[str], None]
Move = Callable[[int, int, str], None]
"""Takes what is done, how much there is, and what it is at."""


@contextmanager
def spinning(text: str) -> Iterator[Tell]:
    """A spinner with a text that the block may change."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status(text) as status:
        yield lambda now: status.update(now)


@contextmanager
def moving(text: str) -> Iterator[Move]:
    """A bar that the block moves; it pulses until it knows how much there is."""
    if not sys.stderr.isatty():
        yield lambda done, total, now: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(text, total=None)
        yield lambda done, total, now: progress.update(
            bar, completed=done, total=total, description=now
        )
