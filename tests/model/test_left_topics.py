"""Rewinds beside topics that come and go; `pytest -s` prints the number of states."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.model import left_topics
from tests.model.left_topics import searched

from tidemark.protocol.rewind_plan import Place, RewindPlan

RUNS = 5


def test_rows_of_a_topic_that_nobody_reads_stay_unless_a_person_lets_them_go() -> None:
    """B4: in every order of runs, edits and rewinds."""
    states, way = searched(RUNS)
    print(f"\n{states:,} states")
    assert way == []


def by_the_file_alone(*given: Any) -> Place:
    """The ledger is not asked which topics the newest run reads."""
    return Place(*given[:4])


@pytest.mark.parametrize(
    ("place", "name", "bug"),
    [
        (RewindPlan, "_refuse_left", lambda *_: None),
        (left_topics, "Place", by_the_file_alone),
    ],
    ids=["nobody asks", "the file alone is asked"],
)
def test_a_guard_that_is_taken_out_is_missed(
    monkeypatch: pytest.MonkeyPatch, place: Any, name: str, bug: Callable[..., Any]
) -> None:
    monkeypatch.setattr(place, name, bug)
    states, way = searched(RUNS)
    print(f"\n{states:,} states: {' · '.join(way)}")
    assert way
    assert way[-1] == "it rewinds"
