"""The watch beside a member at work: a job that is for nothing is ended.

The member's state in the ledger is for display: nothing is decided by it, nothing fails by it.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, RLock, Thread
from typing import TYPE_CHECKING

from tidemark.errors import TidemarkError
from tidemark.runs._member_run import MemberRun

if TYPE_CHECKING:
    from tidemark.runs._stager import Stager


log = logging.getLogger(__name__)


class Display:
    """Tells the ledger what a member does and what it is assigned, when either changes."""

    def __init__(self, run: MemberRun) -> None:
        self._run = run
        self._state = "subscribed"
        self._shown: tuple[object, ...] = ()
        self._at_it = RLock()

    def show(self, state: str, drain_ms: int | None = None) -> None:
        """Show a state, with the time that the last drain took where it is known."""
        with self._at_it:
            self._state = state
            try:
                self._write(state, drain_ms)
            except TidemarkError as error:
                log.warning("member's state not shown: %s", error)

    def refresh(self) -> None:
        """Show the assignment beside the state as it is; from any thread."""
        with self._at_it:
            self.show(self._state)

    def _write(self, state: str, drain_ms: int | None) -> None:
        assigned = sorted(map(str, self._run.member.assigned()))
        shown = (state, assigned, drain_ms)
        if shown != self._shown:
            self._run.ledger.show_member(self._run.number, state, assigned, drain_ms)
            self._shown = shown


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
