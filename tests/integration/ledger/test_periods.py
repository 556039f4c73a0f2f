"""Readers are told of each period once it is complete; each clause has a scenario that needs it.

In any order of events, it is the ledger's model that asks: tests/model.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import Engine
from tests.support.desk import Desk

from tidemark.errors import Fenced
from tidemark.ledger import periods
from tidemark.model.periods import Calendar, Every
from tidemark.model.plan import Bounds
from tidemark.postgres.session import queries

HOURS = Calendar(Every.hour, ZoneInfo("UTC"), lateness=timedelta(minutes=15))
TEN = datetime(2026, 10, 1, 10, tzinfo=UTC)


@pytest.fixture
def desk(ledger_database: tuple[Engine, dict[str, Any]]) -> Desk:
    """A region that never opened, with nothing to read."""
    return Desk(*ledger_database)


def run_at(desk: Desk, hours: float) -> int:
    """A run of ten more records, whose open looks at the clock so long after ten."""
    desk.ahead = TEN + timedelta(hours=hours) - desk.ledger.queries.now()
    desk.grow(10, 0)
    epoch = desk.open(f"at {hours}").epoch
    while desk.plan(epoch):
        desk.work(epoch)
    return epoch


def two_batches_at(desk: Desk, hours: float) -> None:
    """The same, by a run that has read half of them at first."""
    desk.ahead = TEN + timedelta(hours=hours) - desk.ledger.queries.now()
    desk.grow(10, 0)
    epoch = desk.open(f"at {hours}", Bounds(5)).epoch
    while desk.plan(epoch):
        desk.work(epoch)


def told(desk: Desk, epoch: int) -> tuple[list[int], list[int]]:
    """The hours that a close tells of; and which of them again."""
    news = desk.tell(epoch, HOURS)
    found = (list(news.periods), news.again) if news else ([], [])
    hours = {one.key: one.start.hour for one in found[0]}
    assert all(one.end + HOURS.lateness <= news.complete_at for one in found[0] if news)
    return list(hours.values()), [hours[key] for key in found[1]]


def each_is_told_once(desk: Desk) -> None:
    """The first close begins with the newest."""
    for hours, expected in [(2.5, [11]), (3.2, []), (5.5, [12, 13, 14]), (5.6, [])]:
        assert told(desk, run_at(desk, hours)) == (expected, [])
        desk.ledger.announce(desk.region, f"at {hours}", seq=1)  # rows too, or rows alone
        desk.confirm(f"at {hours}")


def a_close_that_dies_is_told_by_the_next_one(desk: Desk) -> None:
    assert told(desk, run_at(desk, 2.5)) == ([11], [])
    epoch = run_at(desk, 4.5)
    assert told(desk, epoch) == ([11, 12, 13], [11])
    assert told(desk, epoch) == ([11, 12, 13], [11, 12, 13])
    desk.confirm("at 4.5")
    assert told(desk, epoch) == ([], [])


def a_rewind_takes_back_what_is_not_complete_any_more(desk: Desk) -> None:
    for hours in (2.5, 3.5, 5.5):
        told(desk, run_at(desk, hours))
        desk.confirm(f"at {hours}")
    desk.rewind(2)
    assert told(desk, run_at(desk, 6.5)) == ([13, 14, 15], [13, 14])


def lateness_counts_in_a_rewind(desk: Desk) -> None:
    """An hour is not complete because its end is."""
    told(desk, run_at(desk, 2.5))
    desk.confirm("at 2.5")
    run_at(desk, 3.1)
    told(desk, run_at(desk, 3.5))
    desk.confirm("at 3.5")
    desk.rewind(2)
    assert told(desk, run_at(desk, 3.6)) == ([12], [12])


def a_rewind_of_all_takes_back_all(desk: Desk) -> None:
    for hours in (2.5, 3.5):
        told(desk, run_at(desk, hours))
        desk.confirm(f"at {hours}")
    desk.rewind(0)
    assert told(desk, desk.epoch) == ([], [])
    assert told(desk, run_at(desk, 4.5)) == ([11, 12, 13], [11, 12])


def what_a_rewind_leaves_is_told_once(desk: Desk) -> None:
    """Nor does a rewind keep what nobody was told of."""
    told(desk, run_at(desk, 2.5))
    desk.confirm("at 2.5")
    for hours in (3.5, 3.6):
        run_at(desk, hours)
    desk.rewind(2)
    assert told(desk, run_at(desk, 3.7)) == ([12], [])


def what_was_sent_and_then_rewound_is_told_again(desk: Desk) -> None:
    """The close had died before its verdict could confirm it."""
    told(desk, run_at(desk, 2.5))
    desk.confirm("at 2.5")
    told(desk, run_at(desk, 3.5))
    desk.rewind(1)
    assert told(desk, run_at(desk, 3.6)) == ([12], [12])


def a_rewind_to_the_oldest_checkpoint_takes_back_what_came_after_it(desk: Desk) -> None:
    """It is the first of its run's two: an older run tells what it held, and is not pruned."""
    for hours in (2.5, 4.5):
        told(desk, run_at(desk, hours))
        desk.confirm(f"at {hours}")
        desk.close(f"at {hours}")
    two_batches_at(desk, 6.5)
    told(desk, desk.epoch)
    desk.confirm("at 6.5")
    for _ in range(3):
        desk.open("idle")
    with desk.ledger.deciding(desk.region, desk.epoch, "prune") as tx:
        tx.prune(2, 100)
    desk.rewind(3)
    assert told(desk, run_at(desk, 6.6)) == ([14, 15], [14, 15])


def other_hours_are_told_from_where_the_old_ones_end(desk: Desk) -> None:
    """A pipeline file that says days now: no time is left out."""
    told(desk, run_at(desk, 2.5))
    desk.confirm("at 2.5")
    days = Calendar(Every.day, ZoneInfo("UTC"), HOURS.lateness)
    news = desk.tell(run_at(desk, 15), days)
    assert news
    assert [one.key for one in news.periods] == ["2026-10-01T00:00:00"]


def another_lateness_or_zone_leaves_no_time_out(desk: Desk) -> None:
    told(desk, run_at(desk, 2.5))
    desk.confirm("at 2.5")
    later = Calendar(Every.hour, ZoneInfo("UTC"), lateness=timedelta(hours=2))
    news = desk.tell(run_at(desk, 5.1), later)
    assert news
    assert [one.start.hour for one in news.periods] == [12]
    desk.confirm("at 5.1")
    halves = Calendar(Every.hour, ZoneInfo("Asia/Kolkata"), HOURS.lateness)
    news = desk.tell(run_at(desk, 6.8), halves)
    assert news
    assert news.periods[0].key == "2026-10-01T18:00:00+05:30"
    assert news.periods[0].start < TEN + timedelta(hours=3) < news.periods[0].end


SCENARIOS: list[Callable[[Desk], None]] = [
    each_is_told_once,
    a_close_that_dies_is_told_by_the_next_one,
    a_rewind_takes_back_what_is_not_complete_any_more,
    lateness_counts_in_a_rewind,
    a_rewind_of_all_takes_back_all,
    what_a_rewind_leaves_is_told_once,
    what_was_sent_and_then_rewound_is_told_again,
    a_rewind_to_the_oldest_checkpoint_takes_back_what_came_after_it,
    other_hours_are_told_from_where_the_old_ones_end,
    another_lateness_or_zone_leaves_no_time_out,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.__name__)
def test_each_period_is_told_once_and_again_after_a_rewind(
    desk: Desk, scenario: Callable[[Desk], None]
) -> None:
    """B27."""
    scenario(desk)


SEEDED = [
    ("announce_periods", "periods_since = coalesce(periods_since, %(periods_since)s)",
     "periods_since = %(periods_since)s", a_rewind_of_all_takes_back_all),
    ("announce_periods", "periods_until = coalesce(periods_until, %(periods_since)s)",
     "periods_until = periods_until", a_close_that_dies_is_told_by_the_next_one),
    ("announce_periods", "greatest(periods_sent, %(periods_until)s)", "periods_sent",
     a_close_that_dies_is_told_by_the_next_one),
    ("announce_periods", "periods_lateness = %(lateness)s", "periods_lateness = '0'",
     lateness_counts_in_a_rewind),
    ("confirm_announced", "coalesce(n.periods_until, r.periods_until)", "r.periods_until",
     each_is_told_once),
    ("confirm_announced", "coalesce(n.periods_until, r.periods_until)", "n.periods_until",
     each_is_told_once),
    ("rewind_periods", "periods_until = least(", "periods_sent = least(",
     a_rewind_takes_back_what_is_not_complete_any_more),
    ("rewind_periods", "least(periods_until, ", "least(",
     what_a_rewind_leaves_is_told_once),
    ("rewind_periods", "greatest(periods_since,\n", "(\n", a_rewind_of_all_takes_back_all),
    ("prune_runs", "r.epoch IS DISTINCT FROM", "0 IS DISTINCT FROM",
     a_rewind_to_the_oldest_checkpoint_takes_back_what_came_after_it),
]  # fmt: skip
"""A statement that forgets or repeats, and the scenario that finds it."""


@pytest.mark.parametrize(("name", "words", "others", "scenario"), SEEDED)
def test_each_clause_of_what_was_told_is_needed(
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    words: str,
    others: str,
    scenario: Callable[[Desk], None],
) -> None:
    """G224: with another clause the scenario does not hold."""
    right = queries()[name]
    assert right.count(words) == 1
    monkeypatch.setitem(queries(), name, right.replace(words, others))
    with pytest.raises((AssertionError, OverflowError)):
        scenario(desk)


def test_another_epoch_tells_nothing(desk: Desk) -> None:
    """G225: a rewind may come between the look and the telling."""
    epoch = run_at(desk, 2.5)
    desk.rewind(0)
    with pytest.raises(Fenced):
        desk.tell(epoch, HOURS)
    assert desk.sql(f"SELECT periods_sent FROM tidemark.regions WHERE {desk.here}") == [(None,)]


def test_one_close_tells_of_no_more_than_airflow_can_start(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G226: the oldest first; the next close goes on."""
    monkeypatch.setattr(periods, "MOST_PERIODS", 3)
    for hours, expected in [(2.5, [11]), (9.5, [12, 13, 14]), (9.6, [15, 16, 17]), (9.7, [18])]:
        assert told(desk, run_at(desk, hours)) == (expected, [])
        desk.confirm(f"at {hours}")
