"""The picture of a run, from what the ledger answers."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest

from tidemark.ledger.past import Driver, PastReset, Share
from tidemark.page.newest_runs import Newest, first_near
from tidemark.page.picture import drawn

SVG = "{http://www.w3.org/2000/svg}"


def at(seconds: float) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def driver(member: int, state: str = "done", epoch: int = 1, joined: float = 0) -> Driver:
    name = f"drain[{member}] try 1"
    return Driver(member, epoch, name, state, at(joined), at(joined + 30))


def share(member: int, seq: int, state: str = "published") -> Share:
    ended = None if state == "planned" else at(seq + 1)
    return Share(member, seq, state, at(seq), ended, 1000 if ended else None)


def reset(discarded: list[int], to_seq: int) -> PastReset:
    return PastReset(
        2, "ada", "why", None, discarded, 3, to_seq, 0, 0, [], "finished", at(9), at(9)
    )


def picture(
    drivers: list[Driver],
    shares: list[Share],
    resets: list[PastReset] | None = None,
    is_over: bool = True,
) -> str:
    return drawn(Newest("r", drivers, shares, resets or [], at(60), is_over))


def texts(picture: str) -> list[str]:
    """What can be read in it, in order."""
    root = ElementTree.fromstring(picture)
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]


def boxes(picture: str, kind: str) -> int:
    return sum(
        one.get("class") == kind for one in ElementTree.fromstring(picture).iter(f"{SVG}rect")
    )


def test_a_batch_of_two_members_counts_once_and_stands_in_both_lanes() -> None:
    found = picture([driver(0), driver(1)], [share(0, 1), share(1, 1), share(0, 2)])
    assert texts(found)[0] == "region r: 2,000 rows in 2 batches, 2 drivers"
    assert boxes(found, "batch") == 3


def test_a_batch_that_a_rewind_took_back_is_pale_and_does_not_count() -> None:
    found = picture([driver(0)], [share(0, 1, "rewound"), share(0, 2)])
    assert texts(found)[0] == "region r: 1,000 rows in 1 batch, 1 driver"
    assert (boxes(found, "batch"), boxes(found, "rewound")) == (1, 1)


def test_a_batch_that_is_not_published_is_hollow_and_reaches_to_now() -> None:
    found = picture([driver(0)], [share(0, 1, "planned")], is_over=False)
    assert (boxes(found, "batch"), boxes(found, "planned")) == (0, 1)
    assert "batch 1: not published" in found


def test_drivers_bear_the_ledgers_names_and_who_died_is_marked() -> None:
    found = picture([driver(0, "draining"), driver(1)], [])
    assert texts(found)[1:3] == ["drain[0] try 1 epoch 1", "drain[1] try 1 epoch 1"]
    assert found.count('class="died"') == 1


def test_who_is_at_work_in_an_open_run_has_not_died() -> None:
    drivers = [driver(0, "draining"), driver(1, "failed"), driver(2, "draining", epoch=2)]
    assert picture(drivers, [], is_over=False).count('class="died"') == 2


def test_a_driver_whose_task_is_tried_again_has_died() -> None:
    again = replace(driver(2, "draining"), name="drain[0] try 2")
    drivers = [driver(0, "draining"), driver(1, "draining"), again]
    assert picture(drivers, [], is_over=False).count('class="died"') == 1


def test_a_share_of_a_driver_that_is_not_drawn_is_left_out() -> None:
    assert boxes(picture([driver(0)], [share(0, 1), share(7, 1)]), "batch") == 1


def test_a_name_is_no_markup() -> None:
    hostile = Driver(0, 1, "<script>x", "done", at(0), at(30))
    assert "<script>" not in picture([hostile], [])


@pytest.mark.parametrize(
    ("reset", "told"),
    [
        (reset([4], 3), "reset, batch 4 discarded"),
        (reset([], 3), "reset"),
        (reset([], 1), "rewind to checkpoint 1"),
    ],
)
def test_a_reset_says_what_it_did(reset: PastReset, told: str) -> None:
    assert told in texts(picture([driver(0)], [], [reset]))


def test_a_reset_long_after_the_run_does_not_press_it_flat() -> None:
    late = replace(reset([], 1), started_at=at(7230))
    found = picture([driver(0)], [share(0, 1)], [late])
    assert "rewind to checkpoint 1, 119 min later" in found
    assert "40 s" not in texts(found)  # the run took 30


def test_a_run_of_hours_ago_is_not_drawn_beside_one_of_seconds() -> None:
    near = [driver(0, epoch=3, joined=0), driver(1, epoch=4, joined=60)]
    assert first_near(near, 4) == 3
    far = [driver(0, epoch=3, joined=0), driver(1, epoch=4, joined=7200)]
    assert first_near(far, 4) == 4
