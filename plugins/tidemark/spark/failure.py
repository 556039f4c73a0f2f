"""Errors on their way out of a Python worker: what was raised there is raised again here.

Between a worker and the driver stands a JVM that passes on nothing but text. So an error of
ours travels as one line of JSON behind a mark that nobody else can know: a token of this
executor. No other text decides anything.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from traceback import format_exception

from tidemark import errors
from tidemark.errors import JobFailed, TidemarkError

_KINDS = {
    kind.__name__: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, TidemarkError)
}
_MESSAGE_CHARS = 1000
_FRAME = re.compile(
    r'^ +File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>\S+)', re.MULTILINE
)
_SOURCE_LINES = re.compile(r"\A(\n    .*)+")
_END = re.compile(r"\n\s*\n|\n\s+at |;\n'|JVM stacktrace:")
_NOT_THEIRS = re.compile(rf"{re.escape(str(Path(errors.__file__).parent))}/|.*/(pyspark|py4j)/")


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


def cause(error: Exception) -> str:
    """The exception that ended a job, and where the user's own code stood in it.

    For reading only; nothing is decided by it.
    """
    python = "".join(format_exception(error)).rpartition("Traceback (most recent call last):")[2]
    frames = list(_FRAME.finditer(python))
    said = python[frames[-1].end() :] if frames else python
    text = _shortened(_END.split(_SOURCE_LINES.sub("", said).strip(), maxsplit=1)[0])
    theirs = [frame for frame in frames if not _NOT_THEIRS.match(frame["file"])]
    return (
        f"{text} ({theirs[-1]['file']}, line {theirs[-1]['line']}, in {theirs[-1]['name']})"
        if theirs
        else text
    )


def _shortened(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _MESSAGE_CHARS else f"{flat[:_MESSAGE_CHARS]}…"
