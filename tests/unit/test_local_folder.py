"""What a stack keeps in its folder."""

import stat
import subprocess
from pathlib import Path

import pytest

from tidemark_local._folder import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path / "state")
    made.create()
    return made


def test_a_port_is_kept_for_the_next_start(folder: Folder) -> None:
    assert Folder(folder.root).port("kafka") == folder.port("kafka")


def test_the_ports_of_a_folder_differ(folder: Folder) -> None:
    assert len({folder.port(name) for name in ("a", "b", "c", "d")}) == 4


def test_other_accounts_may_pass_through_the_folder_and_enter_no_other(folder: Folder) -> None:
    """G133: also where it was open before."""
    (folder.root / "logs").chmod(0o755)
    folder.create()
    modes = {name: stat.S_IMODE((folder.root / name).stat().st_mode) for name in (".", "logs")}
    assert modes == {".": 0o711, "logs": 0o700}


def test_git_passes_over_the_folder_with_its_secrets(folder: Folder) -> None:
    folder.secret("x")
    subprocess.run(["git", "init", "-q", folder.root.parent], check=True)
    told = subprocess.run(
        ["git", "-C", folder.root.parent, "status", "--porcelain", "-uall"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout == ""


def test_a_secret_is_made_once_and_read_by_its_owner_only(folder: Folder) -> None:
    assert folder.secret("x") == Folder(folder.root).secret("x")
    assert folder.secret("x") != folder.secret("y")
    assert stat.S_IMODE((folder.root / "secrets.json").stat().st_mode) == 0o600
