"""`tidemark complete`: up to when a region is complete, for scripts."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.support.commands import answer, refusal, settle_in, tidemark
from tests.support.world import World

NOT_COMPLETE = 23


def asked_at(region: World) -> datetime:
    """When the newest run asked."""
    [(found,)] = region.sql("SELECT max(asked_at) FROM tidemark.runs")
    assert isinstance(found, datetime)
    return found


def test_a_region_whose_run_is_done_is_complete_at_its_start(region: World) -> None:
    """B27"""
    found = answer("complete", region.region)
    assert datetime.fromisoformat(found["complete_at"]) == asked_at(region)
    assert (found["seq"], found["dead_letters"], found["accepted"]) == (3, 2, [])
    told = tidemark("complete", region.region, "--at", asked_at(region).isoformat()).stdout
    assert "dead letters  2" in told.splitlines()


def test_a_later_time_has_an_exit_code_of_its_own(region: World) -> None:
    """B27"""
    later = asked_at(region) + timedelta(microseconds=1)
    told = refusal("complete", region.region, "--at", later.isoformat(), exits=NOT_COMPLETE)
    assert told.case == "RegionNotComplete"
    assert datetime.fromisoformat(told.fields["complete_at"]) == asked_at(region)
    assert datetime.fromisoformat(told.fields["wanted_at"]) == later


def test_where_no_run_ever_asked_nothing_is_complete(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle_in(world, tmp_path, monkeypatch)
    assert refusal("complete", world.region, exits=NOT_COMPLETE).fields["complete_at"] is None
    world.produce(3)
    world.open("at work")
    assert refusal("complete", world.region, exits=NOT_COMPLETE).fields["complete_at"] is None


def test_a_rewind_takes_it_back(region: World) -> None:
    """B27"""
    tidemark("reset", region.region, "--to", "initial", "--apply")
    refusal("complete", region.region, exits=NOT_COMPLETE)


def test_to_wait_is_to_wait_for_a_run_that_opens_from_now_on(region: World) -> None:
    before = asked_at(region)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(answer, "complete", region.region, "--wait")
        runs = 0
        while not waiting.done():
            runs += 1
            region.run(f"again {runs}")
    assert datetime.fromisoformat(waiting.result()["complete_at"]) > before


def test_a_time_that_cannot_be_read_is_refused(region: World) -> None:
    told = refusal("complete", region.region, "--at", "yesterday", exits=2)
    assert (told.case, told.fields["given"]) == ("OptionUnreadable", "yesterday")
