"""Waiting with a deadline, with progress, and with a way to stop."""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tidemark.deadline import Deadline
from tidemark_local.errors import NotInTime, StartCommandDoesNotEnd, StartCommandFailed

ERROR = re.compile(r"\b(FATAL|ERROR|PANIC)\b|(Error|Exception): ")

Tell = Callable[[str, str], None]
"""Takes a service's name and what it is at."""


class Cancelled(Exception):
    """The start was called off."""


def silent(service: str, text: str) -> None:
    """Tells nobody."""


class Watch:
    """Waits for one `up`: tells progress, keeps deadlines, ends early when cancelled."""

    def __init__(self, tell: Tell = silent) -> None:
        self.tell = tell
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Every wait under this watch ends with Cancelled."""
        self._cancelled.set()

    def sleep(self, seconds: float) -> None:
        """The time has passed, or Cancelled is raised."""
        if self._cancelled.wait(seconds):
            raise Cancelled("the start was interrupted")

    def until(self, ready: Callable[[], bool], otherwise: NotInTime) -> None:
        """`ready` has returned true, within the seconds of the error to raise otherwise.

        Raises:
            NotInTime: the deadline has passed.
            Cancelled: somebody called it off.
        """
        deadline = Deadline(otherwise.seconds)
        while not ready():
            if deadline.is_past:
                raise otherwise
            self.sleep(0.05)

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        what: str,
        log: Path,
        within: float = 300,
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        """The command has ended well; its output is appended to the log.

        Raises:
            NotStarted: it failed or took too long; names the log and its last line.
        """
        process = start_logged(argv, log, env=env, **options)
        try:
            self.until(
                lambda: process.poll() is not None,
                StartCommandDoesNotEnd(command=what, seconds=within),
            )
        finally:
            _end(process)
        if process.returncode != 0:
            raise StartCommandFailed(command=what, cause=reason(log), log=log)


def start_logged(argv: Sequence[str | Path], log: Path, **options: Any) -> subprocess.Popen[bytes]:
    """A process in a session of its own has started; its output is appended to the log."""
    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603
            [str(word) for word in argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **options,
        )


def reason(log: Path) -> str:
    """The log's last line that names an error, else its last line: for a one-line error."""
    text = log.read_text(errors="replace") if log.exists() else ""
    lines = [line.strip() for line in text.splitlines() if line.strip()][-300:] or ["no output"]
    errors = [line for line in lines if ERROR.search(line) and not line.startswith("at ")]
    return (errors or lines)[-1][:500]


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
