"""Processes of others, any of which may end between two questions: then it is only not there."""

import signal
from collections.abc import Iterable
from contextlib import suppress

import psutil


def family(pid: int) -> list[psutil.Process]:
    """The process, and all that it started and that still run."""
    with suppress(psutil.NoSuchProcess):
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    return []


def status(process: psutil.Process) -> str:
    """As psutil names it; empty if the process is gone."""
    with suppress(psutil.NoSuchProcess):
        return str(process.status())
    return ""


def runs(pid: int) -> bool:
    """Whether the process is there, and not a zombie."""
    with suppress(psutil.NoSuchProcess):
        return str(psutil.Process(pid).status()) != psutil.STATUS_ZOMBIE
    return False


def stopped(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those of them that have reached a failpoint's `stop`."""
    return [one for one in processes if status(one) == psutil.STATUS_STOPPED]


def resume(process: psutil.Process) -> None:
    """It goes on; a worker may be gone, killed by its driver when another task had failed."""
    with suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGCONT)


def ask_for_threads(process: psutil.Process) -> None:
    """It writes what its threads do; a Python process, by its faulthandler, ends with that."""
    with suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGQUIT if "java" in process.name() else signal.SIGABRT)


def kill(process: psutil.Process) -> None:
    """It runs no longer."""
    with suppress(psutil.NoSuchProcess):
        process.kill()
