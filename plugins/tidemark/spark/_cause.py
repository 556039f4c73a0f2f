"""The exception that ended a job, in a line, and where the user's own code stood in it."""

import re
from pathlib import Path
from traceback import format_exception

from tidemark import errors

_MESSAGE_CHARS = 1000
_FRAME = re.compile(
    r'^ +File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>\S+)', re.MULTILINE
)
_SOURCE_LINES = re.compile(r"\A(\n    .*)+")
_END = re.compile(r"\n\s*\n|\n\s+at |;\n'|JVM stacktrace:")
_NOT_THEIRS = re.compile(
    rf"{re.escape(str(Path(errors.__file__).parent))}/|.*/(pyspark|py4j|importlib)/|<frozen"
)
_LIBRARY = re.compile(r".*/lib/python3\.\d+/|.*\.(pxi|pyx)$")


def cause(error: Exception) -> str:
    """The exception that ended a job, and where the user's own code stood in it.

    For reading only; nothing is decided by it.
    """
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg} ({error.filename}, line {error.lineno})"
    python = "".join(format_exception(error)).rpartition("Traceback (most recent call last):")[2]
    frames = list(_FRAME.finditer(python))
    said = python[frames[-1].end() :] if frames else python
    text = _shortened(_END.split(_SOURCE_LINES.sub("", said).strip(), maxsplit=1)[0])
    not_ours = [frame for frame in frames if not _NOT_THEIRS.match(frame["file"])]
    theirs = [frame for frame in not_ours if not _LIBRARY.match(frame["file"])] or not_ours
    return (
        f"{text} ({theirs[-1]['file']}, line {theirs[-1]['line']}, in {theirs[-1]['name']})"
        if theirs
        else text
    )


def _shortened(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _MESSAGE_CHARS else f"{flat[:_MESSAGE_CHARS]}…"
