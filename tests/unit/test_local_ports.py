"""A server that listens on a port which it was told."""

import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tidemark_local import daemon
from tidemark_local._folder import Folder, candidates, reserved, unused
from tidemark_local.daemon import Daemon
from tidemark_local.errors import PortTaken, ServiceNotReady
from tidemark_local.watch import Watch

SERVER = (
    "import socket, sys, time; server = socket.create_server(('127.0.0.1', int(sys.argv[1])));"
    " time.sleep(600)"
)


class Server:
    """The smallest one; `before` is called each time before it takes its port."""

    def __init__(self, folder: Folder, before: Callable[[int], object] = lambda port: None) -> None:
        self.folder = folder
        self.before = before
        self.told: list[str] = []
        self.daemon = Daemon(folder, "thing")

    def start(self) -> int:
        self.watch = Watch(lambda _, text: self.told.append(text))
        daemon.serve(self.folder, ["thing"], self._launch, self.daemon.stop, self.watch)
        return self.folder.port("thing")

    def _launch(self) -> None:
        port = self.folder.port("thing")
        self.before(port)
        self.daemon.start([sys.executable, "-c", SERVER, str(port)])
        silent = ServiceNotReady(service="thing", log=self.daemon.log, seconds=60)
        self.watch.until(self._answers, silent)

    def _answers(self) -> bool:
        self.daemon.must_run()
        return self.daemon.listens(self.folder.port("thing"))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path / "state")
    made.create()
    return made


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "FREED_SECONDS", 0)


def taken(port: int) -> socket.socket:
    return socket.create_server(("127.0.0.1", port))


def test_one_that_is_reserved_is_chosen_by_nobody_else() -> None:
    port = unused(())
    others = set(candidates()) - {port}
    held = reserved(port)
    assert held
    with held, pytest.raises(StopIteration):
        unused(others)


@pytest.mark.usefixtures("impatient")
def test_a_server_whose_port_is_taken_while_it_starts_is_started_on_another(
    folder: Folder,
) -> None:
    thieves: list[socket.socket] = []

    def steal(port: int) -> None:
        if len(thieves) < 2:
            thieves.append(taken(port))

    server = Server(folder, steal)
    try:
        port = server.start()
        assert port not in {thief.getsockname()[1] for thief in thieves}
        assert Folder(folder.root).port("thing") == port
    finally:
        server.daemon.stop()
        for thief in thieves:
            thief.close()


@pytest.mark.usefixtures("impatient")
def test_a_stopped_server_moves_from_a_port_that_stays_taken_and_says_so(folder: Folder) -> None:
    port = folder.port("thing")
    server = Server(folder)
    try:
        with taken(port):
            moved = server.start()
        assert moved != port
        assert server.told[-1] == f"port {port} stays taken: it moves to {moved}"
    finally:
        server.daemon.stop()


@pytest.mark.usefixtures("impatient")
def test_a_port_that_clients_know_never_moves(folder: Folder) -> None:
    port = folder.port("thing")
    folder.give(["thing"])
    with taken(port), pytest.raises(PortTaken) as refused:
        Server(folder).start()
    assert (refused.value.name, refused.value.port) == ("thing", port)
    assert folder.port("thing") == port
