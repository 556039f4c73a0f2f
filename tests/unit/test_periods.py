"""Hours and days as clocks show them, also where they are moved."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.model.periods import Calendar, Every, Period

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = sorted(available_timezones() - {"localtime"})
MOMENTS = st.integers(946_684_800, 2_114_380_800).map(lambda one: datetime.fromtimestamp(one, UTC))
"""Of 2000 to 2037."""
CALENDARS = st.builds(
    Calendar,
    every=st.sampled_from(Every),
    zone=st.sampled_from(ZONES).map(ZoneInfo),
    lateness=st.timedeltas(timedelta(0), timedelta(days=2)),
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def calendar(every: Every, zone: ZoneInfo = BERLIN, lateness: int = 0) -> Calendar:
    return Calendar(every, zone, timedelta(minutes=lateness))


def lengths(found: Iterator[Period]) -> dict[str, float]:
    return {one.key: (one.end - one.start) / timedelta(hours=1) for one in found}


@pytest.mark.parametrize(
    ("after", "until", "expected"),
    [
        ("2026-03-28", "2026-03-31", [24, 23, 24]),
        ("2026-10-24", "2026-10-27", [24, 25, 24]),
    ],
    ids=["spring", "autumn"],
)
def test_a_day_has_the_hours_that_clocks_give_it(
    after: str, until: str, expected: list[float]
) -> None:
    first, last = (at(one).replace(tzinfo=BERLIN) for one in (after, until))
    found = lengths(calendar(Every.day).complete(first, last))
    assert list(found.values()) == expected
    assert next(iter(found)) == f"{after}T00:00:00"


def test_an_hour_that_comes_twice_has_two_keys() -> None:
    found = lengths(calendar(Every.hour).complete(at("2026-10-24T23:00Z"), at("2026-10-25T02:59Z")))
    assert found == {
        "2026-10-25T01:00:00+02:00": 1,
        "2026-10-25T02:00:00+02:00": 1,
        "2026-10-25T02:00:00+01:00": 1,
    }


def test_an_hour_that_clocks_leave_out_is_none() -> None:
    found = lengths(calendar(Every.hour).complete(at("2026-03-29T00:00Z"), at("2026-03-29T02:00Z")))
    assert found == {"2026-03-29T01:00:00+01:00": 1, "2026-03-29T03:00:00+02:00": 1}


def test_an_hour_of_utc_has_airflows_own_key() -> None:
    utc = calendar(Every.hour, ZoneInfo("UTC"))
    found = lengths(utc.complete(at("2026-10-25T00:00Z"), at("2026-10-25T01:00Z")))
    assert found == {"2026-10-25T00:00:00": 1}


def test_a_midnight_that_clocks_leave_out_begins_a_day() -> None:
    cairo = calendar(Every.day, ZoneInfo("Africa/Cairo"))
    first = at("2026-04-23").replace(tzinfo=ZoneInfo("Africa/Cairo"))
    assert lengths(cairo.complete(first, at("2026-04-25T12:00Z"))) == {
        "2026-04-23T00:00:00": 24,
        "2026-04-24T00:00:00": 23,
    }


def test_a_period_is_complete_when_its_lateness_is_over() -> None:
    late = calendar(Every.hour, ZoneInfo("UTC"), lateness=15)
    due = at("2026-01-01T10:15:00Z")
    assert not [*late.complete(at("2026-01-01T09:00Z"), due - timedelta.resolution)]
    [found] = late.complete(at("2026-01-01T09:00Z"), due)
    assert (found.start, found.end) == (at("2026-01-01T09:00Z"), at("2026-01-01T10:00Z"))


@given(CALENDARS, MOMENTS)
def test_without_a_time_it_is_the_newest(one: Calendar, moment: datetime) -> None:
    [newest] = one.complete(None, moment)
    assert newest.end <= moment - one.lateness
    assert [*one.complete(newest.start, moment)] == [newest]
    assert not [*one.complete(newest.end, moment)]


@given(CALENDARS, MOMENTS, st.timedeltas(timedelta(0), timedelta(days=9)))
def test_periods_leave_no_gap_and_no_key_comes_twice(
    one: Calendar, after: datetime, later: timedelta
) -> None:
    """Nor does it matter where one begins to ask: no time is in two periods."""
    until = after + later + one.lateness
    found = [*islice(one.complete(after, until), 300)]
    assert all(a.end == b.start for a, b in pairwise(found))
    assert all(one.start < one.end for one in found)
    assert len({one.key for one in found}) == len(found)
    assert not found or found[0].start <= after < found[0].end
    for period in found:
        inside = period.start + (period.end - period.start) / 3
        assert next(one.complete(inside, until)) == period
