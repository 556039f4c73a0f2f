"""Errors on their way out of a Python worker: what was raised there is raised again here.

Between a worker and the driver stands a JVM that passes on nothing but text. So an error of
ours travels as one line of JSON behind a mark that nobody else can know: a token of this
executor. No other text decides anything.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from secrets import token_hex

from tidemark import errors
from tidemark.errors import JobFailed, TidemarkError

_KINDS = {
    kind.__name__: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, TidemarkError)
}
_MESSAGE_CHARS = 1000


class WorkerError(Exception):
    """A TidemarkError as a Python worker sends it to the driver."""


def new_token() -> str:
    """A mark for the errors of one executor's tasks."""
    return token_hex(16)


@contextmanager
def marked(token: str) -> Iterator[None]:
    """Inside, a TidemarkError leaves as a line that only `recognised` with this token reads."""
    try:
        yield
    except TidemarkError as error:
        line = json.dumps({"kind": type(error).__name__, "text": str(error)})
        raise WorkerError(f"TIDEMARK {token} {line}") from error


def recognised(text: str, token: str) -> TidemarkError | None:
    """The error of ours that a failed job's text carries, if it carries one."""
    found = re.search(rf"TIDEMARK {token} (\{{.*\}})$", text, re.MULTILINE)
    if found is None:
        return None
    error = json.loads(found[1])
    return _KINDS.get(error["kind"], JobFailed)(error["text"])


def cause(text: str) -> str:
    """What a person needs of a failed job's text: the innermost exception and where it was."""
    python = (
        text.rpartition("Traceback (most recent call last):")[2] if "Traceback (" in text else ""
    )
    frames = list(re.finditer(r'^\s+File "([^"]+)", line (\d+), in (\S+)', python, re.MULTILINE))
    if not frames:
        return _shortened(text.split("\n\tat ")[0].split("JVM stacktrace:")[0])
    said = re.split(r"^\s*$|^\tat ", python[frames[-1].end() :], maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in said.splitlines() if line and not line.startswith(" ")]
    theirs = [frame for frame in frames if not re.search(r"/(pyspark|tidemark)/", frame[1])]
    where = (theirs or frames)[-1]
    return f"{_shortened(' '.join(lines))} ({where[1]}, line {where[2]}, in {where[3]})"


def _shortened(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _MESSAGE_CHARS else f"{flat[:_MESSAGE_CHARS]}…"
