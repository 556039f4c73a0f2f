"""The state folder of one local stack: ports, secrets, logs, pid files and data.

Clients must know a server's port before, so the folder chooses it; the server may move later.
"""

import fcntl
import json
import os
import random
import secrets
import socket
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
LAST = 30_000
MANY = 15_000


def candidates(ephemeral: Path = EPHEMERAL) -> range:
    """Ports that no outgoing connection takes while their server is down.

    They lie below the kernel's range of ephemeral ports: from 32,768 on unless Linux was told
    otherwise, from 49,152 on in macOS. Where nothing is left below it, they lie within it.
    """
    try:
        first = int(ephemeral.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = LAST
    end = min(first, LAST)
    begin = max(1024, end - MANY)
    return range(begin, end) if end - begin > 1000 else range(LAST - MANY, LAST)


def unused(besides: Collection[int]) -> int:
    """A port that nobody has, nor has reserved, and that is none of these."""
    choices = [port for port in candidates() if port not in besides]
    random.shuffle(choices)
    return next(port for port in choices if is_free(port) and _is_unreserved(port))


def is_free(port: int) -> bool:
    """Whether a server could listen there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def reserved(port: int) -> socket.socket | None:
    """What keeps others from choosing the port until it is closed; None if another has it.

    It is a UDP socket of that number: TCP has numbers of its own, so a server can take the port
    meanwhile. Should this process die the reservation is gone too.
    """
    held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        held.bind(("127.0.0.1", port))
    except OSError:
        held.close()
        return None
    return held


def _is_unreserved(port: int) -> bool:
    held = reserved(port)
    if held:
        held.close()
    return held is not None


class Folder:
    """One folder holds all that a stack keeps; two stacks in two folders never meet."""

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().resolve()
        self._given: set[str] = set()

    def create(self) -> None:
        """The folder exists; others may pass through it (Postgres needs that), and no more."""
        _make(self.root, 0o711)
        unseen = self.root / ".gitignore"
        if not unseen.exists():
            unseen.write_text("*\n")  # secrets and data are not for git
        self.private("logs")
        self.private("pids")

    @property
    def exists(self) -> bool:
        """Whether a stack was ever started here."""
        return (self.root / "pids").is_dir()

    def private(self, name: str) -> Path:
        """A folder in it that no other account enters."""
        return _make(self.root / name, 0o700)

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
        """The port of this name: chosen once, free at that time, kept for the next start."""
        return int(self._kept("ports.json", name, self._unused))

    def move_port(self, name: str) -> int:
        """Another port of this name, kept from now on."""
        with self._changing():
            _write(self.root / "ports.json", self._ports() | {name: self._unused()})
        return self.port(name)

    def give(self, names: Iterable[str]) -> None:
        """Clients know the ports of these names: until this process ends, they do not move."""
        self._given.update(names)

    def has_given(self, name: str) -> bool:
        """Whether clients know the port of this name."""
        return name in self._given

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

    def _ports(self) -> dict[str, str]:
        return _read(self.root / "ports.json")

    def _unused(self) -> str:
        return str(unused({int(port) for port in self._ports().values()}))

    def _kept(self, file: str, name: str, make: Callable[[], str]) -> str:
        known = _read(self.root / file)
        if name not in known:
            with self._changing():
                known = _read(self.root / file)
                if name not in known:
                    known[name] = make()
                    _write(self.root / file, known)
        return known[name]

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """No other thread or process changes what is kept."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / "kept.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _make(folder: Path, mode: int) -> Path:
    """The folder exists, with this mode if it is ours."""
    folder.mkdir(parents=True, exist_ok=True)
    if folder.stat().st_uid == os.geteuid():
        folder.chmod(mode)
    return folder


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
    write_private(path, json.dumps(values, indent=1, sort_keys=True) + "\n")
