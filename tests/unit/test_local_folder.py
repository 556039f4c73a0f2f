"""What a stack keeps in its folder."""

import socket
import stat
from pathlib import Path

import pytest

from tidemark.local.folder import PORTS, Folder, write_private


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path / "state")
    made.create()
    return made


def test_a_port_is_kept_for_the_next_start(folder: Folder) -> None:
    assert Folder(folder.root).port("kafka") == folder.port("kafka")


def test_ports_differ_and_lie_below_the_ephemeral_range(folder: Folder) -> None:
    ports = {folder.port(name) for name in ("a", "b", "c", "d")}
    assert len(ports) == 4
    assert all(port in PORTS for port in ports)


def test_a_port_that_somebody_took_is_replaced_and_the_new_one_kept(folder: Folder) -> None:
    port = folder.port("postgres")
    with socket.create_server(("127.0.0.1", port)):
        other = folder.free_port("postgres")
    assert other != port
    assert folder.free_port("postgres") == other


def test_a_secret_is_made_once_and_read_by_its_owner_only(folder: Folder) -> None:
    assert folder.secret("x") == Folder(folder.root).secret("x")
    assert folder.secret("x") != folder.secret("y")
    assert stat.S_IMODE((folder.root / "secrets.json").stat().st_mode) == 0o600


def test_a_private_file_is_private_although_it_was_open_before(tmp_path: Path) -> None:
    path = tmp_path / "env"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, "new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_folder_is_locked_while_somebody_works_on_it(folder: Folder) -> None:
    told: list[str] = []

    class Busy(Exception):
        pass

    def waiting() -> None:
        told.append("waiting")
        raise Busy

    with folder.locked(waiting):
        with pytest.raises(Busy), Folder(folder.root).locked(waiting):
            pass
        assert told == ["waiting"]
    with folder.locked(waiting):
        assert told == ["waiting"]
