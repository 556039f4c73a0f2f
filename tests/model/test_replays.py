"""Replays of dead letters in every order of events; `pytest -s` prints the number of states."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.model.replays import Replays, searched

from tidemark.errors import OutcomeUnknown
from tidemark.model.dead_letters import Replayed
from tidemark.protocol import replay

WORLDS: dict[str, tuple[tuple[str, ...], dict[str, int]]] = {
    "beside a zombie drain": (("drain", "replay"), {}),
    "twice": (("replay", "replay", "drain"), {}),
    "beside a rewind": (("replay", "rewind", "drain"), {}),
    "beside a rewind to the initial state": (("replay", "rewind"), {"to_seq": 0}),
    "twice beside a rewind": (("replay", "replay", "rewind"), {}),
    "without an answer": (("replay", "replay", "drain"), {"unanswered": 2}),
    "without an answer, beside a rewind": (("replay", "rewind"), {"unanswered": 1}),
    "with a crash of Postgres": (("replay", "replay", "drain"), {"postgres": 1}),
    "alone, with a crash of Postgres": (("replay",), {"postgres": 1}),
}


@pytest.mark.parametrize("name", WORLDS)
def test_each_record_is_a_row_or_a_dead_letter_whatever_happens(name: str) -> None:
    """B14: once, under any order of replays, a zombie drain and a rewind."""
    kinds, faults = WORLDS[name]
    states, wrong = searched(Replays(kinds, without=(), **faults))
    print(f"\n{name}: {states:,} states")
    assert wrong == ""


Patch = Callable[[pytest.MonkeyPatch], None]


def unasked(patch: pytest.MonkeyPatch) -> None:
    """A COMMIT without an answer is taken for one that happened."""

    def publish(ledger: Any, target: Any, batch: Any, contribution: Any) -> Replayed:
        try:
            return whole(ledger, target, batch, contribution)
        except OutcomeUnknown:
            return Replayed(batch.seq, 1, 1, 1)

    whole = replay._publish
    patch.setattr("tests.model.replays.publish_replay", publish)


@pytest.mark.parametrize(
    ("without", "found", "name"),
    [
        (("epoch", "discard"), "replay is fenced in its own epoch", "twice"),
        (("epoch", "discard", "head"), "published without the one before", "beside a rewind"),
        (("choice",), "record 0 is 2 rows", "twice"),
        (("mark",), "replay is told StagingLost", "twice"),
        (("mark", "counts"), "replay is told StagingLost", "twice"),
        (("counts",), "record 0 is 0 rows", "alone, with a crash of Postgres"),
        (("marks",), "record 0 is 0 rows", "beside a rewind"),
        (("discard",), "", "twice"),  # the epoch alone fences them
    ],
    ids=str,
)
def test_a_guard_that_is_taken_out_is_missed(
    without: tuple[str, ...], found: str, name: str
) -> None:
    kinds, faults = WORLDS[name]
    states, wrong = searched(Replays(kinds, without=without, **faults))
    print(f"\n{without}: {states:,} states, {wrong}")
    assert wrong.startswith(found)
    assert bool(wrong) == bool(found)


def test_an_answer_that_is_not_asked_for_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    unasked(monkeypatch)
    kinds, faults = WORLDS["without an answer"]
    _, wrong = searched(Replays(kinds, without=(), **faults))
    assert "a replay is told that it was published" in wrong
