"""One long-running process of the stack: found again after a crash, never mistaken for another."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tidemark.local.errors import ServiceEnded
from tidemark.local.folder import Folder, write_private
from tidemark.local.watch import reason, start_logged

MARK = "TIDEMARK_LOCAL_STACK"
"""Environment variable naming the state folder: all that a stack's processes start inherits it."""
NAME = "TIDEMARK_LOCAL_SERVICE"
"""Environment variable naming the process of the stack that it comes from."""


class Daemon:
    """A process with a pid file; pid and start time together say whether it still runs."""

    def __init__(self, folder: Folder, name: str) -> None:
        self.name = name
        self.log = folder.log(name)
        self._folder = folder
        self._pid_file = folder.root / "pids" / f"{name}.json"
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> psutil.Process | None:
        """The living process, or None; a stale pid file is not believed."""
        try:
            known = json.loads(self._pid_file.read_text())
            process = psutil.Process(known["pid"])
            same = abs(process.create_time() - known["created"]) < 2
            return process if same and is_alive(process) else None
        except (OSError, LookupError, TypeError, ValueError, psutil.NoSuchProcess):
            return None

    @property
    def pid(self) -> int | None:
        """The living process's id, or None."""
        process = self.process
        return process.pid if process else None

    def start(
        self,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        **options: Any,
    ) -> None:
        """The process runs in a session of its own, logs to its file and is noted on disk.

        The log of the one before it is kept beside it.
        """
        marks = {MARK: str(self._folder.root), NAME: self.name}
        marks |= {"SPT_NOENV": "1"}  # setproctitle must not wipe the marks
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.1"))
        env = {**(os.environ if env is None else env), **marks}
        self._child = start_logged(argv, self.log, cwd=cwd, env=env, **options)
        process = psutil.Process(self._child.pid)
        note = {"pid": process.pid, "created": process.create_time()}
        write_private(self._pid_file, json.dumps(note))

    def listens(self, port: int) -> bool:
        """Whether the process, or one that it started, is who answers at the port."""
        process = self.process
        return process is not None and any(_listens(one, port) for one in family(process))

    def must_run(self) -> None:
        """Raises ServiceEnded with the reason from the log when the process has ended."""
        if self.process is None:
            raise ServiceEnded(service=self.name, cause=reason(self.log), log=self.log)

    def clear(self) -> None:
        """Nothing that an earlier process of this name started runs, if its pid file is stale."""
        if self.process is None:
            end(marked(self._folder, self.name), grace=5)

    def stop(self, how: signal.Signals = signal.SIGTERM, *, grace: float = 15) -> None:
        """Neither the process nor its descendants run: asked first, killed after `grace`."""
        process = self.process
        if process is not None:
            members = family(process)
            _signal([process], how)
            await_end([process], grace)
            end([p for p in members if is_alive(p)], grace=2)
        self._reap()
        self._pid_file.unlink(missing_ok=True)

    def _reap(self) -> None:
        if self._child is not None:
            self._child.kill()  # only one whose pid file was lost still runs
            self._child.wait()
            self._child = None


def marked(folder: Folder, name: str | None = None) -> list[psutil.Process]:
    """All living processes that this folder's stack (or its part) started, orphans too.

    The caller and its parents are never among them.
    """
    marks = {MARK: str(folder.root)} | ({NAME: name} if name else {})
    own = {os.getpid(), *(p.pid for p in psutil.Process().parents())}
    return [p for p in psutil.process_iter() if p.pid not in own and _carries(p, marks)]


def running() -> dict[str, set[str]]:
    """The processes of all stacks on this machine that this account may see, by state folder."""
    found: dict[str, set[str]] = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            environment = process.environ()
            if MARK in environment and is_alive(process):
                found.setdefault(environment[MARK], set()).add(environment.get(NAME, ""))
    return found


def family(process: psutil.Process) -> list[psutil.Process]:
    """The process and all its living descendants, whatever group or session they are in."""
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return [process]


def end(processes: Iterable[psutil.Process], *, grace: float) -> None:
    """None of the processes runs: SIGTERM, and SIGKILL for those left after `grace`."""
    processes = list(processes)
    _signal(processes, signal.SIGTERM)
    await_end(processes, grace)
    _signal([p for p in processes if is_alive(p)], signal.SIGKILL)
    await_end(processes, 10)


def await_end(processes: Sequence[psutil.Process], seconds: float) -> bool:
    """Whether all have ended within the time."""
    deadline = time.monotonic() + seconds
    while any(is_alive(p) for p in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def is_alive(process: psutil.Process) -> bool:
    """Whether it runs; a zombie, dead but not yet waited for, does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _signal(processes: Iterable[psutil.Process], how: signal.Signals) -> None:
    for process in processes:
        try:
            process.send_signal(how)
        except psutil.NoSuchProcess:
            continue


def _listens(process: psutil.Process, port: int) -> bool:
    try:
        found = process.net_connections("tcp")
    except psutil.NoSuchProcess:
        return False
    return any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in found)


def _carries(process: psutil.Process, marks: Mapping[str, str]) -> bool:
    try:
        return marks.items() <= process.environ().items() and is_alive(process)
    except (psutil.Error, OSError):
        return False
