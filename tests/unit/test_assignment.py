"""What is assigned, what is taken away, and when a waiting thread is told."""

import threading

import pytest

from tidemark.errors import Unreachable
from tidemark.kafka.member import NOTHING, Assignment
from tidemark.model.offsets import TopicPartition

A, B, C = (TopicPartition("t", number) for number in range(3))
ALL = frozenset({A, B, C})
HANGS = 1000.0
"""Seconds. Longer than a test may take: who waits so long for a change is ended by the time-out."""


@pytest.fixture
def assignment() -> Assignment:
    """All three partitions are held."""
    assignment = Assignment()
    assignment.replace(ALL)
    return assignment


def test_while_an_eager_group_shares_anew_nothing_is_taken_away(assignment: Assignment) -> None:
    assignment.suspend()
    assert (assignment.assigned(), assignment.lost_partitions(ALL)) == (NOTHING, NOTHING)


def test_only_what_the_next_assignment_lacks_is_taken_away(assignment: Assignment) -> None:
    assignment.suspend()
    assignment.replace(frozenset({A, B}))
    assert assignment.assigned() == {A, B}
    assert assignment.lost_partitions(ALL) == {C}


def test_a_failure_takes_everything_and_is_told_whenever_asked(assignment: Assignment) -> None:
    first = Unreachable()
    assignment.fail(first)
    assignment.fail(Unreachable())
    for _ in range(2):
        with pytest.raises(Unreachable) as found:
            assignment.assigned()
        assert found.value is first
    assert assignment.lost_partitions(ALL) == ALL


def test_a_change_between_the_look_and_the_wait_is_not_waited_for(assignment: Assignment) -> None:
    assignment.assigned()
    assignment.suspend()
    assignment.wait(HANGS)


@pytest.mark.parametrize("end", ["suspend", "fail"])
def test_a_change_ends_a_wait(assignment: Assignment, end: str) -> None:
    assignment.assigned()
    waiting = threading.Thread(target=assignment.wait, args=(HANGS,), daemon=True)
    waiting.start()
    assignment.suspend() if end == "suspend" else assignment.fail(Unreachable())
    waiting.join(HANGS / 2)
    assert not waiting.is_alive()
