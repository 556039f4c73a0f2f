"""Token callbacks as an installation would have them, and the desk where they get their tokens.

Processes of a test share a folder, which a variable names.
"""

import base64
import json
import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from secrets import token_hex
from time import time
from typing import Any

import psycopg2
from psycopg2 import sql
from tests.support.waiting import outlast

FOLDER = "TIDEMARK_TEST_TOKENS"
USER = "tidemark"
PATHS = ("tests.support.callbacks.token", "tests.support.callbacks.password")

END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s AND state = 'idle'"


class Desk:
    """Gives out tokens that live for seconds, and the newest password of a role."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seconds = folder / "seconds"
        """How long a token lives."""
        self.fault = folder / "fault"
        """While it is there, no token is made."""
        self.passwords = folder / "passwords"
        """All that the role has had; the last one is the newest."""
        self._role = folder / "role"
        self._asked = folder / "asked"

    @classmethod
    def here(cls) -> "Desk":
        """The one that this process was told of."""
        return cls(Path(os.environ[FOLDER]))

    def open(self, administrator: Mapping[str, Any], role: str, seconds: float) -> None:
        """It gives out passwords of this role of a server."""
        self.seconds.write_text(str(seconds))
        self._role.write_text(json.dumps([dict(administrator), role]))
        self.rotate()

    def rotate(self) -> None:
        """The role has another password, and no idle session that logged in with an older one."""
        administrator, role = json.loads(self._role.read_text())
        word = token_hex()
        statement = sql.SQL("ALTER ROLE {} PASSWORD {}").format(
            sql.Identifier(role), sql.Literal(word)
        )
        with closing(psycopg2.connect(**administrator)) as session:
            session.autocommit = True
            with session.cursor() as cursor:
                cursor.execute(statement)
                with self.passwords.open("a") as file:
                    file.write(word + "\n")
                cursor.execute(END, (role,))

    def note(self, what: str) -> None:
        """This process asks."""
        words = Path("/proc/self/cmdline").read_text().replace("\0", " ")
        with self._asked.open("a") as file:
            file.write(json.dumps([what, os.getpid(), words]) + "\n")

    def asked(self, what: str) -> list[tuple[int, str]]:
        """Which processes asked for it so far: id and command line, each time."""
        lines = self._asked.read_text().splitlines() if self._asked.exists() else []
        found = map(json.loads, lines)
        return [(process, words) for name, process, words in found if name == what]

    def outlive(self) -> None:
        """Let the tokens pass that are given out."""
        outlast(float(self.seconds.read_text()))


def token(_: str | None) -> tuple[str, float]:
    """An unsigned token, as Kafka's validator for development takes it."""
    desk = Desk.here()
    desk.note("token")
    until = time() + float(desk.seconds.read_text())
    made = unsigned(until)
    if desk.fault.exists():
        raise RuntimeError(made)
    return made, until


def unsigned(until: float) -> str:
    """A token of the user, up to a time."""
    return f"{HEADER}.{_in_base64({'sub': USER, 'iat': time() - 1, 'exp': until})}."


def _in_base64(part: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


HEADER = _in_base64({"alg": "none"})
"""How each token begins."""


def password(_: Mapping[str, Any]) -> str:
    """The newest one."""
    desk = Desk.here()
    desk.note("password")
    return desk.passwords.read_text().split()[-1]


def steady(_: Mapping[str, Any]) -> str:
    """One that never changes."""
    return "steady"
