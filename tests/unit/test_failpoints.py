import os
import signal
from pathlib import Path

import pytest

from tidemark import failpoints
from tidemark.failpoints import VARIABLE, FailpointHit, hit


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """No point was reached yet."""
    monkeypatch.delenv(VARIABLE, raising=False)
    failpoints.reached.clear()


def test_a_failpoint_is_inert_unless_switched_on() -> None:
    hit("publish.before")
    assert not failpoints.reached


def test_what_is_installed_has_no_failpoints(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """G125: the package without a checkout around it, as a wheel or an image has it."""
    monkeypatch.setattr(
        failpoints, "__file__", str(tmp_path / "lib" / "tidemark" / "failpoints.py")
    )
    assert not failpoints.is_checkout()
    monkeypatch.setenv(VARIABLE, "publish.before=raise")
    monkeypatch.setattr(failpoints, "IS_CHECKOUT", failpoints.is_checkout())
    hit("publish.before")


def test_raise_raises_the_first_time_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "a=raise")
    with pytest.raises(FailpointHit):
        hit("a")
    hit("a")


def test_at_counts_the_times_the_point_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "a=raise@3; b=raise")
    hit("a")
    hit("a")
    with pytest.raises(FailpointHit):
        hit("a")


@pytest.mark.parametrize(("action", "number"), [("kill", signal.SIGKILL), ("stop", signal.SIGSTOP)])
def test_kill_and_stop_send_this_process_the_signal(
    monkeypatch: pytest.MonkeyPatch, action: str, number: signal.Signals
) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, what: sent.append((pid, what)))
    monkeypatch.setenv(VARIABLE, f"a={action}")
    hit("a")
    assert sent == [(os.getpid(), number)]
