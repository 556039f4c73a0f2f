"""What readers of the target are told stands in the ledger; see tests/dags for the events."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from tests.support.failpoint import failpoint
from tests.support.world import World

from tidemark.admin import announce as announce_module
from tidemark.admin.announce import (
    announce,
    confirm,
    news,
    period_news,
    periods_taken_back,
    told_of_rewind,
)
from tidemark.errors import Refused
from tidemark.failpoints import FailpointHit
from tidemark.kafka.group import Group
from tidemark.ledger.queries import LedgerQueries

Told = tuple[int, int, int, int]


def told(world: World, run_id: str) -> Told | None:
    """What a close tells: after and up to which seq, batches and rows."""
    closed = world.close(run_id)
    found = news(world.pipeline, world.connections, closed)
    if found is None:
        return None
    seq = closed.checkpoint.seq
    announce(world.pipeline, world.connections, run_id=run_id, seq=seq)
    return found.after_seq, seq, found.counted.batches, found.counted.rows


def confirmed(world: World, run_id: str) -> bool:
    return confirm(world.pipeline, world.connections, run_id=run_id)


def test_readers_are_told_until_the_ledger_knows_that_they_were(world: World) -> None:
    """G185: a close that dies is tried again, or the next run tells it with its own."""
    world.produce(2)
    world.run("first")
    assert [told(world, "first"), told(world, "first")] == [(0, 1, 1, 2)] * 2
    assert confirmed(world, "first")
    assert told(world, "first") is None
    world.produce(3, start=2)
    world.run("dies")
    assert told(world, "dies") == (1, 2, 1, 3)
    world.produce(1, start=5)
    world.run("next")
    assert told(world, "next") == (1, 3, 2, 4)
    assert (confirmed(world, "dies"), confirmed(world, "next")) == (False, True)
    assert told(world, "dies") is None


def test_after_a_rewind_readers_are_told_from_where_it_went_back_to(world: World) -> None:
    """G185: also where nobody told them of the rewind, as the command line can't."""
    for number in range(3):
        world.produce(1, start=number)
        world.run(f"run {number}")
    assert (told(world, "run 2"), confirmed(world, "run 2")) == ((0, 3, 3, 3), True)
    world.reset(to=1)
    world.run("again")
    assert told(world, "again") == (1, 4, 1, 2)
    assert (confirmed(world, "again"), told(world, "again")) == (True, None)


def test_a_rewind_that_nobody_told_of_is_told_without_a_new_batch(world: World) -> None:
    """G185."""
    world.produce(2)
    world.run("first")
    assert (told(world, "first"), confirmed(world, "first")) == ((0, 1, 1, 2), True)
    report = world.reset(to=0)
    assert told(world, "first") == (0, 0, 0, 0)
    told_of_rewind(world.pipeline, world.connections, epoch=report.epoch)
    assert told(world, "first") is None


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the clock that opens look at: minutes after ten."""

    def set_clock(minutes: int) -> None:
        now = datetime(2026, 10, 1, 10 + minutes // 60, minutes % 60, tzinfo=UTC)
        monkeypatch.setattr(LedgerQueries, "now", lambda _: now)

    return set_clock


def hours(world: World, run_id: str) -> tuple[list[int], int] | None:
    """The hours that a close tells of, and how many of them again."""
    with period_news(world.pipeline, world.connections, run_id=run_id) as found:
        return ([one.start.hour for one in found.periods], len(found.again)) if found else None


def test_a_close_tells_of_periods_and_a_rewind_takes_them_back(
    world: World, at: Callable[[int], None]
) -> None:
    """B27: G225: not the close of a run whose epoch is over, nor without `complete`."""
    world.produce(2)
    at(130)
    world.run("silent")
    assert hours(world, "silent") is None
    assert periods_taken_back(world.pipeline, world.connections) == []
    world.settings["complete"] = {"every": "hour", "lateness_seconds": 600}
    assert hours(world, "never opened") is None
    assert told(world, "silent") == (0, 1, 1, 2)
    assert (hours(world, "silent"), confirmed(world, "silent")) == (([11], 0), True)
    world.produce(1, start=2)
    at(190)
    world.run("next")
    assert hours(world, "silent") is None
    assert hours(world, "next") == ([12], 0)
    world.reset(to=1)
    assert periods_taken_back(world.pipeline, world.connections) == ["2026-10-01T12:00:00"]
    assert hours(world, "next") is None
    at(191)
    world.run("again")
    assert hours(world, "again") == ([12], 1)


def dies_at(world: World, step: str) -> None:
    """The run reads all, and its close or its verdict dies at this step."""
    world.open("dies")
    world.drain("dies")
    with suppress(FailpointHit), failpoint(step):
        assert told(world, "dies")
        hours(world, "dies")
        if step == "verdict.after":
            assert confirmed(world, "dies")


@pytest.mark.parametrize(
    ("step", "then"),
    [
        ("close.before", ([11, 12], 0)),
        ("close.after", ([11, 12], 0)),
        ("announced", ([11, 12], 1)),  # whether Airflow has sent it is not known
        ("verdict.after", ([12], 0)),
    ],
)
def test_whatever_kills_a_close_each_hour_is_told(
    world: World, at: Callable[[int], None], step: str, then: tuple[list[int], int]
) -> None:
    """B27, G224: by the next close, and as told before where that may be."""
    world.settings["complete"] = {"every": "hour"}
    world.produce(1)
    at(80)
    world.run("first")
    assert told(world, "first") == (0, 1, 1, 1)
    assert (hours(world, "first"), confirmed(world, "first")) == (([10], 0), True)
    world.produce(1, start=1)
    at(140)
    dies_at(world, step)
    at(200)
    world.run("next")
    assert hours(world, "next") == then


def test_what_a_close_was_about_to_tell_when_it_died_its_next_try_has_yet_to_tell(
    world: World, at: Callable[[int], None]
) -> None:
    """G228: a try that can't tell anything ends well too, and its verdict comes."""
    world.settings["complete"] = {"every": "hour"}
    world.produce(1)
    at(80)
    world.run("dies")
    assert told(world, "dies") == (0, 1, 1, 1)
    assert hours(world, "dies") == ([10], 0)
    world.close("dies")
    assert not confirmed(world, "dies")
    world.run("next")
    assert told(world, "next") == (0, 1, 1, 1)
    assert hours(world, "next") == ([10], 1)


def test_what_can_not_be_sent_is_told_by_the_next_close(
    world: World, at: Callable[[int], None]
) -> None:
    """G240: though Airflow calls this one a success."""
    world.settings["complete"] = {"every": "hour"}
    world.produce(1)
    at(80)
    world.run("first")
    with suppress(TimedOut), period_news(world.pipeline, world.connections, run_id="first") as news:
        assert news
        raise TimedOut
    assert not confirmed(world, "first")
    at(90)
    world.run("next")
    assert hours(world, "next") == ([10], 0)


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_it_is_told_who_writes_the_times_of_records(
    world: World, at: Callable[[int], None], topic: Callable[..., str], kind: str
) -> None:
    world.settings["complete"] = {"every": "day", "zone": "Europe/Berlin"}
    world.topic = topic(**{"message.timestamp.type": kind})
    at(0)
    world.run("first")
    with period_news(world.pipeline, world.connections, run_id="first") as found:
        assert found
    assert (found.timestamps, found.periods[0].key) == (kind, "2026-09-30T00:00:00")


def test_a_period_is_told_whatever_kafka_says_of_its_topics(
    world: World, at: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger has kept by then that it is told."""
    world.settings["complete"] = {"every": "hour"}
    at(80)
    world.run("first")

    def refuses(*_: object) -> None:
        raise Refused

    monkeypatch.setattr(announce_module, "timestamp_type", refuses)
    assert hours(world, "first") == ([10], 0)


class TimedOut(BaseException):
    """As Airflow's time-out of a task is none of the errors that code expects."""


@pytest.mark.parametrize("error", [OSError, TimedOut])
def test_no_trouble_at_the_end_of_a_close_makes_a_closed_run_red(
    world: World, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """G186: such as while its clients are closed, or its traces are sent."""
    world.produce(2)
    world.open()
    world.drain()

    def breaks(_: Group) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Group, "close", breaks)
        assert world.close().rows == 2
    assert world.sql("SELECT state FROM tidemark.runs") == [("closed",)]
