"""What a member shows of itself, told by its own thread and by the watch's."""

from threading import Event, Thread
from types import SimpleNamespace
from typing import Any, cast

from tidemark.runs._member_run import MemberRun
from tidemark.runs._watch import Display


class SlowLedger:
    """Keeps what is shown; the first write waits for `go`."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.at_it, self.go = Event(), Event()

    def show_member(self, number: int, state: str, assigned: object, drain_ms: object) -> None:
        """A write that can be overtaken."""
        if not self.at_it.is_set():
            self.at_it.set()
            self.go.wait(120)
        self.shown.append(state)


def test_a_refresh_never_takes_a_newer_state_back() -> None:
    """The watch refreshes while the member goes on: what the member says last stays."""
    ledger = SlowLedger()
    run = SimpleNamespace(number=1, ledger=ledger, member=SimpleNamespace(assigned=list))
    display = Display(cast(MemberRun, cast(Any, run)))
    refresh = Thread(target=display.refresh)
    newer = Thread(target=lambda: display.show("draining"))
    refresh.start()
    ledger.at_it.wait(120)
    newer.start()
    newer.join(0.5)  # It overtakes the refresh now, or never.
    ledger.go.set()
    refresh.join()
    newer.join()
    assert ledger.shown == ["subscribed", "draining"]
