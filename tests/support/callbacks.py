"""Token callbacks as an installation would have them, and the place where they find their tokens.

Processes of a test share a folder, which a variable names: it has the newest password, says how
long a token lives, and keeps who asked.
"""

import base64
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from time import time
from typing import Any

FOLDER = "TIDEMARK_TEST_TOKENS"
USER = "tidemark"
PATHS = ("tests.support.callbacks.token", "tests.support.callbacks.password")


class Desk:
    """The folder."""

    def __init__(self, folder: Path) -> None:
        self.password = folder / "password"
        self.seconds = folder / "seconds"
        self.fault = folder / "fault"
        """While it is there, no token is made."""
        self._asked = folder / "asked"

    def note(self, what: str) -> None:
        """This process asks."""
        words = Path("/proc/self/cmdline").read_text().replace("\0", " ")
        with self._asked.open("a") as file:
            file.write(json.dumps([what, os.getpid(), words or sys.argv[0]]) + "\n")

    def asked(self, what: str) -> list[tuple[int, str]]:
        """Which processes asked for it so far: id and command line, each time."""
        lines = self._asked.read_text().splitlines() if self._asked.exists() else []
        found = map(json.loads, lines)
        return [(process, words) for name, process, words in found if name == what]


def token(_: str | None) -> tuple[str, float]:
    """An unsigned token, as Kafka's validator for development takes it."""
    desk = Desk(Path(os.environ[FOLDER]))
    desk.note("token")
    if desk.fault.exists():
        raise RuntimeError(unsigned(time()))
    until = time() + float(desk.seconds.read_text())
    return unsigned(until), until


def unsigned(until: float) -> str:
    """The token of a user, to a time."""
    claims = {"sub": USER, "iat": time() - 1, "exp": until}
    return f"{HEADER}.{_in_base64(claims)}."


def _in_base64(part: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


HEADER = _in_base64({"alg": "none"})
"""How each token begins."""


def password(_: Mapping[str, Any]) -> str:
    """The newest one."""
    desk = Desk(Path(os.environ[FOLDER]))
    desk.note("password")
    return desk.password.read_text()


def steady(_: Mapping[str, Any]) -> str:
    """One that never changes."""
    return "steady"
