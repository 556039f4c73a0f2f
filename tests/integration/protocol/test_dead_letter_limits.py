"""Too many dead letters: the whole batch is refused before anything of it is visible."""

import pytest
from tests.support.desk import Desk
from tests.support.executor import BAD
from tests.support.produce import produce
from tests.support.world import World

from tidemark.model.dead_letters import CommonReason, Limits
from tidemark.model.errors import DeadLettersOverLimit
from tidemark.model.plan import Bounds
from tidemark.protocol.errors import RunUnfinished
from tidemark.protocol.publish import Result


def test_a_topic_of_nothing_but_bad_records_stops_the_run(world: World) -> None:
    """B15: half of more than 100 is the limit where the file says nothing."""
    produce(world.kafka, world.topic, [BAD] * 101)
    world.open("first")
    with pytest.raises(DeadLettersOverLimit) as caught:
        world.drain("first")
    found = caught.value
    assert found.reasons == (CommonReason("INVALID_JSON", 101, f"{world.topic}[0]@0"),)
    assert (found.seq, found.dead_letters, found.records) == (1, 101, 101)
    assert (found.most, found.max_ratio, found.max_count) == (50, 0.5, None)
    assert (world.rows(), world.dead_letters()) == ([], [])
    with pytest.raises(RunUnfinished):
        world.close("first")
    world.reset("first")
    world.settings = {"dead_letters": {"max_ratio": 1}}
    assert world.run("second").dead_letters == 101


def test_a_batch_at_its_limit_is_published_and_one_above_it_is_not(desk: Desk) -> None:
    """B15: 16 records, two of them dead letters."""
    for most, limits in ((1, Limits(max_count=1)), (0, Limits(max_count=0))):
        epoch = desk.open(limits=limits).epoch
        with pytest.raises(DeadLettersOverLimit) as caught:
            desk.work(epoch)
        found = caught.value
        assert (found.dead_letters, found.records, found.most) == (2, 16, most)
        assert (desk.rows(), desk.dead_letters(), set(desk.offsets().values())) == ([], [], {0})
    assert desk.work(desk.open(limits=Limits(max_count=2)).epoch).result is Result.published
    assert desk.dead_letters() == [(0, 3), (1, 3)]


def test_members_cannot_each_slip_under_the_limit(desk: Desk) -> None:
    """B15: each has one dead letter, the batch has two."""
    epoch = desk.open(limits=Limits(max_count=1)).epoch
    batch = desk.must_plan(epoch)
    ours, theirs = ([p.span] for p in batch.spans)
    first = desk.publish(batch, desk.stage(batch, desk.join(epoch), spans=ours))
    assert first.result is Result.contributed
    with pytest.raises(DeadLettersOverLimit) as caught:
        desk.publish(batch, desk.stage(batch, desk.join(epoch), spans=theirs))
    assert (caught.value.dead_letters, caught.value.records) == (2, 16)
    assert (desk.rows(), desk.dead_letters()) == ([], [])


def test_the_limit_is_the_runs_whatever_a_later_file_says(desk: Desk) -> None:
    """B15: written at open, beside the bounds."""
    desk.open(limits=Limits(0.25, 3))
    kept = "SELECT dead_letters_max_ratio, dead_letters_max_count FROM tidemark.runs WHERE "
    assert desk.sql(kept + desk.here) == [(0.25, 3)]


def test_small_batches_are_judged_together(desk: Desk) -> None:
    """B15: else whatever is refused in a large batch passes in small ones, as after a reset."""
    desk.grow(190)
    epoch = desk.open(bounds=Bounds(100), limits=Limits(0.08)).epoch
    assert desk.work(epoch).dead_letters == 12  # of 80 records, too few to judge
    with pytest.raises(DeadLettersOverLimit) as caught:
        desk.work(epoch)
    assert (caught.value.seq, caught.value.dead_letters, caught.value.records) == (2, 11, 80)


def test_the_counts_that_judge_are_those_of_the_newest_checkpoints(desk: Desk) -> None:
    """As many of them as hold more than 100 records together with the batch."""
    desk.grow(190)
    epoch = desk.open(bounds=Bounds(40)).epoch
    for _ in range(4):
        desk.work(epoch)
    batch = desk.must_plan(epoch)
    contribution = desk.stage(batch, desk.join(epoch))
    newest = "SELECT records, dead_letters_moved FROM tidemark.batches WHERE state = 'published'"
    last = desk.sql(f"{newest} AND {desk.here} ORDER BY seq DESC LIMIT 3")
    with desk.ledger.deciding(desk.region, epoch, "x") as tx:
        tx.claim(batch, contribution)
        counted = tx.count_dead_letters(batch)
    total = sum(records for records, _ in last)
    assert counted.records + total - last[-1][0] <= 100 < counted.records + total
    assert counted.records_before == total
    assert counted.dead_letters_before == sum(dead_letters for _, dead_letters in last)
