"""What is assigned, what is taken away, and when a waiting thread is told."""

import threading
import time

import pytest

from tidemark.errors import Unreachable
from tidemark.kafka.assignment import NOTHING, Assignment
from tidemark.model.offsets import TopicPartition

A, B, C = (TopicPartition("t", number) for number in range(3))
ALL = frozenset({A, B, C})


@pytest.fixture
def holding() -> Assignment:
    """All three partitions are held."""
    holding = Assignment()
    holding.replace(ALL)
    return holding


def test_while_an_eager_group_shares_anew_nothing_is_taken_away(holding: Assignment) -> None:
    holding.suspend()
    assert (holding.assigned(), holding.taken_away(ALL)) == (NOTHING, NOTHING)


def test_only_what_the_next_assignment_lacks_is_taken_away(holding: Assignment) -> None:
    holding.suspend()
    holding.replace(frozenset({A, B}))
    assert (holding.assigned(), holding.taken_away(ALL)) == ({A, B}, {C})


def test_what_a_cooperative_group_revokes_is_taken_away_at_once(holding: Assignment) -> None:
    holding.remove(frozenset({C}))
    assert (holding.assigned(), holding.taken_away(ALL)) == ({A, B}, {C})
    holding.add(NOTHING)
    assert holding.taken_away(ALL) == {C}


def test_what_comes_back_is_held_again(holding: Assignment) -> None:
    holding.replace(NOTHING)
    assert holding.taken_away(ALL) == ALL
    holding.add(frozenset({A}))
    assert (holding.assigned(), holding.taken_away(ALL)) == ({A}, {B, C})


def test_only_what_is_asked_for_is_told(holding: Assignment) -> None:
    holding.replace(NOTHING)
    assert holding.taken_away([A]) == {A}
    assert holding.taken_away([]) == NOTHING


def test_a_failure_takes_everything_and_is_told_whenever_asked(holding: Assignment) -> None:
    holding.fail(Unreachable("first"))
    holding.fail(Unreachable("second"))
    for _ in range(2):
        with pytest.raises(Unreachable, match="first"):
            holding.assigned()
    assert holding.taken_away(ALL) == ALL


def test_a_change_between_the_look_and_the_wait_is_not_waited_for(holding: Assignment) -> None:
    holding.assigned()
    holding.suspend()
    started = time.monotonic()
    holding.wait(20)
    assert time.monotonic() - started < 10


def test_without_a_change_the_wait_takes_its_time(holding: Assignment) -> None:
    holding.assigned()
    started = time.monotonic()
    holding.wait(0.2)
    assert time.monotonic() - started >= 0.2


@pytest.mark.parametrize("end", ["suspend", "fail"])
def test_a_change_ends_a_wait(holding: Assignment, end: str) -> None:
    holding.assigned()
    waiting = threading.Thread(target=holding.wait, args=(60,))
    waiting.start()
    holding.suspend() if end == "suspend" else holding.fail(Unreachable("gone"))
    waiting.join(10)
    assert not waiting.is_alive()
