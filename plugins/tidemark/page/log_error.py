"""The error that a task ends with: found in its log, and what a person does about it."""

import re
from collections import deque
from collections.abc import Iterable

from tidemark.errors import by_code

_LINES = 2000
"""Looked at, from the end of the log."""
_CHARS = 1500
_ERROR = re.compile(rf"\b({'|'.join(sorted(by_code()))}): (.+)", re.DOTALL)
_NOT_TOLD = "no retry can help"  # the operator's word: the driver's own line stands before it


def remedy(code: str | None) -> str:
    """What to do about the error, in Markdown; of a code that is not ours its log tells more."""
    known = by_code()
    return known[code].hint if code in known else "Read its log."


def error_in(lines: Iterable[str]) -> tuple[str, str] | None:
    """The last error that a log tells, as code and text."""
    found = None
    for line in deque(lines, _LINES):
        match = _ERROR.search(line)
        if match and _NOT_TOLD not in match[2]:
            found = match[1], match[2][:_CHARS].strip()
    return found
