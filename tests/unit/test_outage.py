"""An outage is waited out up to a bound, and every round of it is named."""

from functools import partial
from itertools import count

import pytest
from tests.support.said import said

from tidemark.errors import Unreachable
from tidemark.member import outage as outage_module
from tidemark.member.outage import Clock, Outage, waited_out


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Each look at the clock is a second later; pauses take none."""
    monkeypatch.setattr(outage_module, "PAUSE_SECONDS", 0)
    return partial(next, count(0.0))


class Asked:
    """Fails so many rounds, then answers."""

    def __init__(self, rounds: int) -> None:
        self.left = rounds

    def __call__(self) -> str:
        self.left -= 1
        if self.left >= 0:
            raise said(Unreachable, "no broker answered")
        return "an answer"


def test_each_round_is_named_until_the_answer_comes(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """S25."""
    rounds: list[int] = []
    assert waited_out(Asked(3), 10, lambda: rounds.append(1), clock) == "an answer"
    assert caplog.messages == [
        f"OUTAGE: no answer for {n} s, trying for up to 10 s: no broker answered" for n in range(3)
    ]
    assert len(rounds) == 3


def test_an_outage_that_lasts_longer_than_the_bound_is_the_error(clock: Clock) -> None:
    with pytest.raises(Unreachable, match="no broker answered"):
        waited_out(Asked(4), 2, clock=clock)


def test_each_outage_has_the_whole_bound(clock: Clock) -> None:
    outage = Outage(2, clock)
    for _ in range(3):
        for _ in range(3):
            outage.bear(Unreachable())
        assert outage.end()
    assert not outage.end()
