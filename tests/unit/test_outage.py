"""An outage is waited out up to a bound, and every round of it is named."""

from itertools import count

import pytest
from tests.support.said import said

from tidemark.errors import Unreachable
from tidemark.runs import outage as outage_module
from tidemark.runs.outage import Outage, waited_out


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage_module, "PAUSE_SECONDS", 0)


def up_to(seconds: float) -> Outage:
    """Each look at its clock is a second later."""
    return Outage(seconds, count().__next__)


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
    assert waited_out(Asked(3), up_to(10), lambda: rounds.append(1)) == "an answer"
    assert caplog.messages == [
        f"OUTAGE: no answer for {n} s, trying for up to 10 s: no broker answered" for n in range(3)
    ]
    assert len(rounds) == 3


def test_an_outage_that_lasts_longer_than_the_bound_is_the_error() -> None:
    asked = Asked(4)
    with pytest.raises(Unreachable):
        waited_out(asked, up_to(2))
    assert asked.left == 0


def test_each_outage_has_the_whole_bound() -> None:
    outage = up_to(2)
    for _ in range(3):
        for _ in range(3):
            outage.bear(Unreachable())
        assert outage.end()
    assert not outage.end()
