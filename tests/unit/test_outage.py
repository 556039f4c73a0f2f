"""An outage is waited out up to a bound, and every round of it is named."""

import time
from collections.abc import Iterator

import pytest
from tests.support.said import said

from tidemark.errors import Unreachable
from tidemark.member import outage as outage_module
from tidemark.member.outage import Outage, waited_out


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock is a second later; pauses take none."""
    seconds: Iterator[int] = iter(range(100))
    monkeypatch.setattr(time, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(outage_module, "PAUSE_SECONDS", 0)


class Asked:
    """Fails so many rounds, then answers."""

    def __init__(self, rounds: int) -> None:
        self.left = rounds

    def __call__(self) -> str:
        self.left -= 1
        if self.left >= 0:
            raise said(Unreachable, "no broker answered")
        return "an answer"


def test_each_round_is_named_until_the_answer_comes(caplog: pytest.LogCaptureFixture) -> None:
    """S25."""
    rounds: list[int] = []
    assert waited_out(Asked(3), 10, lambda: rounds.append(1)) == "an answer"
    assert caplog.messages == [
        f"OUTAGE: no answer for {n} s, trying for up to 10 s: no broker answered" for n in range(3)
    ]
    assert len(rounds) == 3


def test_an_outage_that_lasts_longer_than_the_bound_is_the_error() -> None:
    with pytest.raises(Unreachable, match="no broker answered"):
        waited_out(Asked(4), 2)


def test_each_outage_has_the_whole_bound() -> None:
    outage = Outage(2)
    for _ in range(3):
        for _ in range(3):
            outage.bear(Unreachable())
        assert outage.end()
    assert not outage.end()
