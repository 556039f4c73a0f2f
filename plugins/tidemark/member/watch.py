"""The watch beside a member at work: a job that is for nothing is ended."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

from tidemark.member.display import Display
from tidemark.member.member_run import MemberRun

if TYPE_CHECKING:
    from tidemark.member.stager import Stager

WATCH_SECONDS = 3.0


@contextmanager
def watched(
    run: MemberRun, display: Display, stager: "Callable[[], Stager | None]"
) -> Iterator[None]:
    """Inside, epoch and assignment are looked at every few seconds, in a thread of their own."""
    done = Event()
    watch = Thread(
        target=_watch, args=(done, run, display, stager), name="epoch-watch", daemon=True
    )
    watch.start()
    try:
        yield
    finally:
        done.set()
        watch.join()


def _watch(
    done: Event, run: MemberRun, display: Display, stager: "Callable[[], Stager | None]"
) -> None:
    while not done.wait(WATCH_SECONDS):
        display.refresh()
        at_work = stager()
        if run.is_fenced():
            display.show("reset pending")
            if at_work:
                at_work.executor.cancel()
            return
        if at_work:
            at_work.active_read.interrupt_if_reassigned()
