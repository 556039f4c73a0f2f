"""A deadline on a clock that the test moves."""

from tidemark.deadline import Deadline


def test_a_deadline_is_past_once_more_than_its_seconds_have_gone_by() -> None:
    now = [100.0]
    deadline = Deadline(5, lambda: now[0])
    now[0] = 103
    assert (deadline.left, deadline.is_past) == (2, False)
    now[0] = 105
    assert (deadline.left, deadline.is_past) == (0, False)
    now[0] = 107
    assert (deadline.left, deadline.is_past) == (0, True)
