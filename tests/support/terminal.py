"""A command in a real pseudo-terminal, as a person has it."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping

CTRL_C = b"\x03"
COLOUR = re.compile(rb"\x1b\[[0-9;]*(3[0-7]|4[0-7]|9[0-7]|38;|48;)[0-9;]*m")


class Terminal:
    """`tidemark …` with a terminal of 160 columns for its three streams."""

    def __init__(self, *arguments: str, **more: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        env = {**_without_colour_words(os.environ), "TERM": "xterm-256color", **more}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tidemark", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=env,
            preexec_fn=_take_terminal,
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = b""

    def until(self, text: str, times: int = 1, within: float = 120) -> None:
        """The text has been shown so many times."""
        deadline = time.monotonic() + within
        while self.shown.count(text.encode()) < times:
            assert time.monotonic() < deadline, self.shown.decode(errors="replace")
            assert self._read(), f"ended: {self.shown.decode(errors='replace')}"

    def press(self, key: bytes) -> None:
        """As on the keyboard."""
        os.write(self._ours, key)

    def ended(self, within: float = 120) -> int:
        """The exit code, once all that was shown is read."""
        while self._read(within):
            pass
        os.close(self._ours)
        return self._process.wait(within)

    def _read(self, within: float = 1.0) -> bool:
        """Whether there may be more."""
        if not select.select([self._ours], [], [], within)[0]:
            return self._process.poll() is None
        try:
            found = os.read(self._ours, 1 << 16)
        except OSError:  # the other end is closed
            return False
        self.shown += found
        return bool(found)


def _take_terminal() -> None:
    """Ctrl-C reaches the process, also if whoever started the tests ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _without_colour_words(known: Mapping[str, str]) -> dict[str, str]:
    words = ("NO_COLOR", "FORCE_COLOR", "CI", "COLUMNS", "LINES")
    return {name: value for name, value in known.items() if name not in words}
