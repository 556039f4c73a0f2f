"""The state folder of one local stack: ports, secrets, logs, pid files and data."""

import fcntl
import json
import os
import random
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PORTS = range(15_000, 30_000)
"""Below the kernels' ephemeral ranges: no outgoing connection takes a stopped server's port."""


class Folder:
    """One folder holds all that a stack keeps; two stacks in two folders never meet."""

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().resolve()
        self._mutex = threading.Lock()

    def create(self) -> None:
        """The folder exists and other accounts may pass through it (Postgres needs that)."""
        self.root.mkdir(parents=True, exist_ok=True)
        if self.root.stat().st_uid == os.geteuid():
            self.root.chmod(0o755)
        (self.root / "logs").mkdir(exist_ok=True)
        (self.root / "pids").mkdir(exist_ok=True)

    @property
    def exists(self) -> bool:
        """Whether a stack was ever started here."""
        return (self.root / "pids").is_dir()

    def log(self, name: str) -> Path:
        """Where the process of this name writes."""
        return self.root / "logs" / f"{name}.log"

    def secret(self, name: str, make: Callable[[], str] | None = None) -> str:
        """The secret of this name: made once, kept in a file that only its owner reads."""
        return str(self._kept("secrets.json", name, make or (lambda: secrets.token_urlsafe(18))))

    def identity(self, name: str, make: Callable[[], str]) -> str:
        """An identifier made once."""
        return str(self._kept("ids.json", name, make))

    def port(self, name: str) -> int:
        """The port chosen for this name, free when it was chosen."""
        return int(self._kept("ports.json", name, lambda: str(self._unused())))

    def free_port(self, name: str) -> int:
        """The port of this name; another one, kept from now on, if somebody else took it."""
        port = self.port(name)
        if not _is_free(port):
            self._keep("ports.json", name, str(self._unused()))
        return self.port(name)

    @contextmanager
    def locked(self, waiting: Callable[[], None]) -> Iterator[None]:
        """Nobody else starts or stops this stack; tells `waiting` once when somebody does."""
        self.create()
        with (self.root / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _unused(self) -> int:
        taken = {int(port) for port in _read(self.root / "ports.json").values()}
        choices = [port for port in PORTS if port not in taken]
        random.shuffle(choices)
        return next(port for port in choices if _is_free(port))

    def _kept(self, file: str, name: str, make: Callable[[], str]) -> str:
        with self._mutex:
            known = _read(self.root / file)
            if name not in known:
                known[name] = make()
                _write(self.root / file, known)
            return known[name]

    def _keep(self, file: str, name: str, value: str) -> None:
        with self._mutex:
            _write(self.root / file, _read(self.root / file) | {name: value})


def write_private(path: Path, text: str) -> None:
    """The file holds the text whole, readable by its owner alone, also if this is cut short."""
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    part.replace(path)


def _read(path: Path) -> dict[str, str]:
    return dict(json.loads(path.read_text())) if path.exists() else {}


def _write(path: Path, values: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, json.dumps(values, indent=1, sort_keys=True) + "\n")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
