"""The picture of a run, from what the ledger answers."""

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest
from scripts.run_picture import Driver, Reset, Share, drawn

SVG = "{http://www.w3.org/2000/svg}"


def at(seconds: float) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def driver(member: int, state: str = "done") -> Driver:
    return Driver(member, 1, f"drain[{member}] try 1", state, at(0), at(30))


def share(member: int, seq: int, state: str = "published") -> Share:
    return Share(member, seq, state, at(seq), at(seq + 1), 1000)


def texts(picture: str) -> list[str]:
    """What can be read in it, in order."""
    root = ElementTree.fromstring(picture)
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]


def boxes(picture: str, kind: str) -> int:
    return sum(
        one.get("class") == kind for one in ElementTree.fromstring(picture).iter(f"{SVG}rect")
    )


def test_a_batch_of_two_members_counts_once_and_stands_in_both_lanes() -> None:
    picture = drawn("r", [driver(0), driver(1)], [share(0, 1), share(1, 1), share(0, 2)], [])
    assert texts(picture)[0] == "region r: 2,000 rows in 2 batches, 2 drivers"
    assert boxes(picture, "batch") == 3


def test_a_batch_that_a_rewind_took_back_is_pale_and_does_not_count() -> None:
    picture = drawn("r", [driver(0)], [share(0, 1, "rewound"), share(0, 2)], [])
    assert texts(picture)[0] == "region r: 1,000 rows in 1 batches, 1 drivers"
    assert (boxes(picture, "batch"), boxes(picture, "rewound")) == (1, 1)


def test_drivers_bear_the_ledgers_names_and_who_died_is_marked() -> None:
    picture = drawn("r", [driver(0, "draining"), driver(1)], [], [])
    assert texts(picture)[1:3] == ["drain[0] try 1 epoch 1", "drain[1] try 1 epoch 1"]
    assert picture.count('class="died"') == 1


@pytest.mark.parametrize(
    ("reset", "told"),
    [
        (Reset(at(9), 4, 3, 3), "reset, batch 4 discarded"),
        (Reset(at(9), None, 3, 3), "reset"),
        (Reset(at(9), None, 3, 1), "rewind to checkpoint 1"),
    ],
)
def test_a_reset_says_what_it_did(reset: Reset, told: str) -> None:
    assert told in texts(drawn("r", [driver(0)], [], [reset]))
