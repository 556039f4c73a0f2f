"""What a first run downloads: retried, told, not had twice; and skipped where it cannot be had."""

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.support.documents import ROOT

TOOLS = (
    "basename",
    "cat",
    "cksum",
    "dirname",
    "grep",
    "head",
    "mkdir",
    "mktemp",
    "rm",
    "sed",
    "sh",
)
LOGGED = '#!/bin/sh\necho "{name} $*" >>"$CALLS"\n'


class Machine:
    """A machine with a few commands; the others it has are fakes, whose calls are kept."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / "bin"
        self.path.mkdir()
        for name in TOOLS:
            found = shutil.which(name)
            assert found
            (self.path / name).symlink_to(found)
        self.has("sleep")
        self.has("id", "echo 0")

    def has(self, name: str, does: str = "", folder: Path | None = None) -> None:
        """A command of this name, which does this in a shell."""
        file = (folder or self.path) / name
        file.write_text(LOGGED.format(name=name) + does + "\n")
        file.chmod(0o755)

    def run(self, script: Path, exits: int = 0) -> str:
        """What the script says."""
        done = subprocess.run(
            [script],
            env={"PATH": str(self.path), "CALLS": str(self.root / "calls")},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == exits, done.stdout
        return done.stdout

    def calls(self, part: str) -> int:
        """How often a command was called with these words."""
        file = self.root / "calls"
        return sum(part in line for line in file.read_text().splitlines()) if file.exists() else 0


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


SKIPPED = (
    "tidemark: no chromium here ({why}): the tests of the pages in Airflow are skipped;"
    " to run them: apt-get install chromium\n"
)


def test_without_apt_get_the_tests_of_pages_are_skipped(machine: Machine) -> None:
    told = machine.run(ROOT / "scripts" / "chromium")
    assert told == SKIPPED.format(why="there is no apt-get")


def test_without_root_the_tests_of_pages_are_skipped(machine: Machine) -> None:
    machine.has("apt-get")
    machine.has("id", "echo 1000")
    assert machine.run(ROOT / "scripts" / "chromium") == SKIPPED.format(
        why="only root may install it"
    )
    assert machine.calls("apt-get") == 0


def test_an_apt_get_that_fails_is_asked_again_and_then_the_tests_are_skipped(
    machine: Machine,
) -> None:
    machine.has("apt-cache", "echo 'Size: 81157036'")
    machine.has("apt-get", "echo 'W: a hint'; echo 'E: Unable to fetch'; exit 100")
    told = machine.run(ROOT / "scripts" / "chromium")
    assert told.endswith(SKIPPED.format(why="E: Unable to fetch"))
    assert machine.calls(" update") == 2
    assert machine.calls("install -y --no-install-recommends chromium") == 3


def test_a_machine_without_lists_of_packages_fetches_them_first(machine: Machine) -> None:
    lists = machine.root / "lists"
    machine.has("apt-cache", f"[ -e {lists} ]")
    machine.has(
        "apt-get",
        f'case "$*" in *update) : >{lists};; *assume-no*) echo Need to get 81.2 MB of archives.;;'
        f" *install*) [ -e {lists} ];; esac",
    )
    told = machine.run(ROOT / "scripts" / "chromium")
    assert told == (
        "tidemark: asking apt for new lists of packages\n"
        "tidemark: downloading and installing chromium, 81.2 MB,"
        " for the tests of the pages in Airflow\n"
    )
    assert machine.calls(" update") == 1


@pytest.fixture
def clone(machine: Machine, tmp_path: Path) -> Path:
    """A clone whose .venv has a Python and a uv that install nothing."""
    clone = tmp_path / "clone"
    (clone / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "bootstrap", clone / "scripts")
    (clone / "requirements.lock").write_text("a==1\nb==2\n")
    (clone / "tools").mkdir()
    for project in (clone, clone / "tools"):
        (project / "pyproject.toml").touch()
    programs = clone / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "uv"):
        machine.has(name, folder=programs)
    machine.has("python3")
    machine.has("java", "echo 'openjdk version \"17.0.1\"'")
    return clone


def test_an_environment_is_installed_once_for_what_it_is_made_of(
    machine: Machine, clone: Path
) -> None:
    bootstrap = clone / "scripts" / "bootstrap"
    assert machine.run(bootstrap) == (
        "tidemark: installing 2 packages, 2 GB on disk (once per requirements.lock)\n"
    )
    assert machine.run(bootstrap) == ""
    assert machine.calls("uv pip sync") == 1
    (clone / "requirements.lock").write_text("a==2\nb==2\n")
    machine.run(bootstrap)
    assert machine.calls("uv pip sync") == 2


def test_after_bootstrap_make_installs_nothing(machine: Machine, clone: Path) -> None:
    """As the tutorial calls it: else the first `make` of all would do it once more."""
    shutil.copy(ROOT / "Makefile", clone)
    make = ("make", "--question", ".venv/.ready")
    assert subprocess.run(make, cwd=clone, check=False).returncode == 1
    machine.run(clone / "scripts" / "bootstrap")
    assert subprocess.run(make, cwd=clone, check=False).returncode == 0


def test_an_environment_that_was_not_installed_whole_is_installed_again(
    machine: Machine, clone: Path
) -> None:
    bootstrap, programs = clone / "scripts" / "bootstrap", clone / ".venv" / "bin"
    machine.has("uv", "exit 1", programs)
    told = machine.run(bootstrap, exits=1)
    assert machine.calls("uv pip sync") == 5
    assert told.endswith("failed five times: check the network, or set UV_INDEX_URL to a mirror\n")
    machine.has("uv", "", programs)
    machine.run(bootstrap)
    assert machine.calls("uv pip sync") == 6
