"""A process that is found again, never mistaken for another, and leaves nobody behind."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.waiting import until

from tidemark_local._folder import Folder
from tidemark_local.daemon import MARK, Daemon, end, is_alive, marked

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); "
)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path / "state")
    made.create()
    yield made
    end(marked(made), grace=0.1)


def test_another_program_finds_the_process_by_its_pid_file(folder: Folder) -> None:
    daemon = Daemon(folder, "x")
    daemon.start(SLEEP)
    found = Daemon(folder, "x").process
    assert found is not None
    assert found.pid == daemon.process.pid  # type: ignore[union-attr]


def test_stop_kills_what_ignores_being_asked(folder: Folder) -> None:
    daemon = Daemon(folder, "x")
    daemon.start([sys.executable, "-c", STUBBORN + "time.sleep(600)"])
    process = daemon.process
    until(lambda: daemon.log.read_text() != "")
    daemon.stop(grace=0.2)
    assert process is not None
    assert not is_alive(process)
    assert daemon.process is None


def test_a_grandchild_in_a_session_of_its_own_is_found_after_its_parents_died(
    folder: Folder,
) -> None:
    start = f"import subprocess, sys; subprocess.Popen({SLEEP!r}, start_new_session=True)"
    daemon = Daemon(folder, "x")
    daemon.start([sys.executable, "-c", start])
    until(lambda: daemon.process is None)
    orphans = marked(folder)
    assert len(orphans) == 1
    end(orphans, grace=5)
    assert marked(folder) == []


def test_the_caller_and_its_shell_are_never_among_the_marked(folder: Folder) -> None:
    code = (
        "from pathlib import Path; from tidemark_local._folder import Folder;"
        "from tidemark_local.daemon import marked;"
        f"print(len(marked(Folder(Path({str(folder.root)!r})))))"
    )
    env = os.environ | {MARK: str(folder.root)}
    shell = f"{sys.executable} -c {json.dumps(code)}; true"
    told = subprocess.run(["sh", "-c", shell], env=env, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "0"
