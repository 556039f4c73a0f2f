"""One long-running process of the stack: found again after a crash, never mistaken for another.

A server takes its ports while it starts, or is started again.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil

from tidemark.deadline import Deadline
from tidemark.errors import NotStarted
from tidemark_local._folder import Folder, is_free, reserved, write_private
from tidemark_local.errors import JavaMissing, PortTaken, ServiceEnded
from tidemark_local.watch import Watch, reason, start_logged

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
    deadline = Deadline(seconds)
    while any(is_alive(p) for p in processes):
        if deadline.is_past:
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


TRIES = 5
FREED_SECONDS = 20
"""A process that was just stopped keeps its port for a moment."""


def serve(
    folder: Folder,
    names: Collection[str],
    start: Callable[[], object],
    stop: Callable[[], object],
    watch: Watch,
) -> None:
    """The server listens on the folder's ports of these names, and clients may be told of them.

    `start` starts it and waits for its answer; `stop` ends what a failed start has left. If one
    of its ports is taken all the same, then by another process: it is started again, on
    another port, or on the same once that is free if clients were told of it.

    Raises:
        PortTaken: a port of which clients were told stays taken.
        NotStarted: it failed for another reason, or met taken ports TRIES times.
    """
    for left in reversed(range(TRIES)):
        with ExitStack() as until_it_listens:
            for name in names:
                until_it_listens.enter_context(_settled(folder, name, watch))
            try:
                start()
            except NotStarted:
                stop()
                if not left or all(is_free(folder.port(name)) for name in names):
                    raise
            else:
                folder.give(names)
                return


def _settled(folder: Folder, name: str, watch: Watch) -> AbstractContextManager[object]:
    """The port of this name is free, and reserved until the end of the context."""
    port = folder.port(name)
    if not _becomes_free(port, name, watch):
        if folder.has_given(name):
            raise PortTaken(name=name, port=port)
        watch.tell(name, f"port {port} stays taken: it moves to {folder.move_port(name)}")
    while (held := reserved(folder.port(name))) is None and not folder.has_given(name):
        folder.move_port(name)
    return held or nullcontext()


def _becomes_free(port: int, name: str, watch: Watch) -> bool:
    if is_free(port):
        return True
    watch.tell(name, f"port {port} is taken: waiting {FREED_SECONDS} s for it")
    deadline = Deadline(FREED_SECONDS)
    while not is_free(port):
        if not deadline.left:
            return False
        watch.sleep(0.1)
    return True


SECONDS = 5


def answer_of(url: str) -> Any | None:
    """The JSON that the page holds; None while there is none. No proxy is asked."""
    try:
        return httpx.get(url, timeout=SECONDS, trust_env=False).raise_for_status().json()
    except (httpx.HTTPError, ValueError):
        return None


def java() -> Path:
    """The java command, of version 17 or newer.

    Raises:
        NotStarted: there is none, or it is older; says what to install.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        raise JavaMissing
    version = _major(Path(found))
    if version < 17:
        raise JavaMissing(found=Path(found), version=version)
    return Path(found)


def _major(command: Path) -> int:
    told = subprocess.run(  # noqa: S603
        [command, "-version"], capture_output=True, text=True, check=False
    )
    match = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    return int(match.group(1)) if match else 0
