"""What the pages read of a ledger: bounded looks at a real region's past."""

import pytest
from tests.support.executor import BAD
from tests.support.produce import numbered, produce
from tests.support.world import World

from tidemark.errors import RunNotDone
from tidemark.ledger.timeline import Timeline
from tidemark.model.offsets import TopicPartition
from tidemark.model.plan import Bounds
from tidemark.page.lags import charts, past


def timeline(world: World) -> Timeline:
    return Timeline(world.ledger().engine)


def test_a_region_that_never_opened_has_no_standing(world: World) -> None:
    world.produce(3)
    world.run()
    assert timeline(world).standings(["never_opened"]) == []


def test_a_standing_is_what_the_ledger_holds(world: World) -> None:
    produce(world.kafka, world.topic, [*numbered(6), BAD], 0)
    world.run(max_records=4)
    [found] = timeline(world).standings([world.region])
    assert (found.state, found.epoch, found.head_seq, found.target_lag) == ("closed", 1, 2, 0)
    assert (found.dead_letters, found.day_dead_letters) == (1, 1)
    assert (sum(found.rows_by_part), found.rows_by_part[-1]) == (6, 6)
    assert found.last_checkpoint_age is not None
    assert 0 <= found.last_checkpoint_age < 600


def test_a_standing_tells_the_run_that_failed_also_after_its_reset(world: World) -> None:
    """As `tidemark status` does: a reset takes an epoch that is no run's."""
    world.produce(3)
    world.begin("run", Bounds(9))
    with pytest.raises(RunNotDone):
        world.close("run")
    [failed] = timeline(world).standings([world.region])
    world.reset("run")
    [after] = timeline(world).standings([world.region])
    assert (failed.state, after.state, after.consecutive_resets) == ("failed", "reset", 1)
    assert (after.run_id, after.reason) == (failed.run_id, failed.reason)
    assert failed.run_id == "run"
    assert failed.reason


def test_the_newest_batches_have_their_times(world: World) -> None:
    world.produce(9)
    world.run(max_records=4)
    found = timeline(world).recent_batches(world.region, 2)
    assert [batch.seq for batch in found] == [3, 2]
    for batch in found:
        assert batch.contributed_at is not None
        assert batch.published_at is not None
        assert batch.planned_at <= batch.contributed_at <= batch.published_at


def test_lag_falls_from_the_backlog_to_nothing_and_comes_back_with_a_rewind(world: World) -> None:
    """B21: lag over time is what the ledger keeps anyway."""
    world.produce(9)
    world.run("first", max_records=4)
    world.reset(to=1)
    look = timeline(world)
    told = charts(past(look, world.region))
    [band] = [one for one in told["lag"]["bands"] if one["name"] == f"{world.topic}[0]"]
    assert band["values"] == [9, 5, 1, 0, 5]
    assert told["lag"]["worst"] == f"{world.topic}[0]"
    assert [batch["rows"] for batch in told["batches"]] == [4, 4, 1]
    offsets = look.next_offsets([world.region])[world.region]
    assert offsets[TopicPartition(world.topic, 0)] == 4


def test_resets_tell_who_and_why(world: World) -> None:
    world.produce(9)
    world.run(max_records=4)
    world.reset(to=1)
    [found] = timeline(world).recent_resets(world.region, 5)
    assert (found.is_rewind, found.from_seq, found.to_seq) == (True, 3, 1)
    assert (found.rows_removed, found.state, bool(found.requested_by)) == (5, "finished", True)


def test_dead_letters_are_counted_and_cut(world: World) -> None:
    long = b"x" * 5000
    produce(world.kafka, world.topic, [*numbered(9), BAD, long], 0)
    world.run()
    look = timeline(world)
    assert sum(one.count for one in look.reasons_of_newest(world.region)) == 2
    newest, other = look.newest_dead_letters(world.region, 5)
    assert (newest.value, newest.value_bytes) == (long[:2000], 5000)
    assert (other.value, other.value_bytes) == (BAD, len(BAD))
    assert look.reasons_of_newest(world.region, limit=1)[0].count == 1


def test_drivers_and_their_shares_are_those_of_the_newest_epochs(world: World) -> None:
    world.produce(4)
    world.run("first")
    world.produce(4, start=4)
    world.run("second")
    look = timeline(world)
    [driver] = look.recent_drivers(world.region, 2, 10)
    assert (driver.epoch, driver.state) == (2, "done")
    [share] = look.recent_shares(world.region, 2, 10)
    assert (share.member, share.seq, share.rows) == (driver.member, 2, 4)
    assert [run.run_id for run in look.past_runs(world.region, 5)] == ["second", "first"]
