"""Bounds that depend on the ledger: slow start, measured bytes, retained checkpoints."""

from dataclasses import replace

import pytest
from tests.support.desk import TOPIC, Desk

from tidemark.ledger.queries import LedgerQueries
from tidemark.model import plan as plan_rule
from tidemark.model.offsets import TopicPartition
from tidemark.model.plan import Bounds
from tidemark.runs import retire
from tidemark.runs.retire import prune

FIRST, SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


def widths(desk: Desk, epoch: int, batches: int) -> list[int]:
    """Offsets of the next batches, each of which is published."""
    found = []
    for _ in range(batches):
        batch = desk.must_plan(epoch)
        found.append(sum(p.span.width for p in batch.spans))
        desk.publish(batch, desk.stage(batch, desk.join(epoch)))
    return found


def test_after_a_reset_batches_begin_small_and_grow(desk: Desk) -> None:
    """S19."""
    desk.grow(400, 0)
    assert widths(desk, desk.open("first", Bounds(32)).epoch, 1) == [32]
    desk.reset()
    assert widths(desk, desk.open("second", Bounds(32)).epoch, 6) == [2, 4, 8, 16, 32, 32]


@pytest.mark.parametrize("retain", [1, 2, 3])
def test_a_slow_start_ends_however_few_checkpoints_are_retained(desk: Desk, retain: int) -> None:
    desk.grow(400, 0)
    widths(desk, desk.open("before", Bounds(32)).epoch, 2)
    desk.must_plan(desk.open("discarded", Bounds(32)).epoch)
    desk.reset()
    found = []
    for run_id in map(str, range(6)):
        epoch = desk.open(run_id, Bounds(32)).epoch
        found += widths(desk, epoch, 1)
        prune(desk.ledger, desk.region, epoch, retain)
    assert found == sorted(found)
    assert (found[0], found[-2:]) == (2, [32, 32])


def test_a_batch_is_bounded_by_the_bytes_that_offsets_weighed_before(desk: Desk) -> None:
    """B6."""
    desk.grow(90, 0)
    desk.grow(90, 1)
    epoch = desk.open("run", Bounds(20, max_bytes=1000)).epoch
    batch = desk.must_plan(epoch)
    assert sum(p.span.width for p in batch.spans) == 20  # nothing was weighed yet
    contribution = desk.stage(batch, desk.join(epoch))
    weights = {FIRST: 150, SECOND: 50}
    reads = tuple(
        replace(read, bytes=weights[read.span.topic_partition] * read.span.width)
        for read in contribution.reads
    )
    desk.publish(batch, replace(contribution, reads=reads))
    assert widths(desk, epoch, 1) == [10]  # 5 * 150 + 5 * 50 = 1000


def test_one_record_heavier_than_the_bound_is_still_read(desk: Desk) -> None:
    """H15: a bound below one record must not plan nothing for ever."""
    epoch = desk.open("run", Bounds(1, max_bytes=1)).epoch
    batch = desk.must_plan(epoch)
    contribution = desk.stage(batch, desk.join(epoch))
    heavy = tuple(replace(read, bytes=10**9) for read in contribution.reads)
    desk.publish(batch, replace(contribution, reads=heavy))
    assert widths(desk, epoch, 2) == [1, 1]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of a few offsets stand for large ones."""
    monkeypatch.setattr(plan_rule, "FIRST_OFFSETS", 8)
    monkeypatch.setattr(plan_rule, "FEWEST_OFFSETS", 1)


TIMED = Bounds(40, seconds=100)


def sized_by(desk: Desk) -> list[str]:
    """Why each batch is no larger, as the ledger keeps it."""
    found = desk.sql(f"SELECT sized_by FROM tidemark.batches WHERE {desk.here} ORDER BY seq")
    return [why for (why,) in found]


def timed(desk: Desk, epoch: int, seconds: float) -> int:
    """Offsets of the next batch, whose drain takes so long."""
    batch = desk.must_plan(epoch)
    desk.publish(batch, replace(desk.stage(batch, desk.join(epoch)), seconds=seconds))
    return sum(p.span.width for p in batch.spans)


@pytest.mark.usefixtures("few")
def test_a_batch_has_what_the_time_of_the_one_before_allows(desk: Desk) -> None:
    """It doubles at most, falls at once, and goes on so in the next run, also after a small one."""
    desk.grow(100, 0)
    epoch = desk.open("first", TIMED).epoch
    found = [timed(desk, epoch, seconds) for seconds in (10, 80, 200, 3, 3, 3, 3)]
    assert found == [8, 16, 20, 10, 20, 40, 6]
    desk.grow(90, 0)
    epoch = desk.open("second", TIMED).epoch
    assert [timed(desk, epoch, 3) for _ in range(3)] == [40, 40, 10]
    assert sized_by(desk) == [
        *("growth", "growth", "seconds", "seconds", "growth", "max_records", "backlog"),
        *("max_records", "max_records", "backlog"),
    ]


@pytest.mark.usefixtures("few")
def test_the_slowest_member_decides(desk: Desk) -> None:
    desk.grow(100, 0)
    desk.grow(100, 1)
    epoch = desk.open("run", TIMED).epoch
    batch = desk.must_plan(epoch)
    for planned, seconds in zip(batch.spans, (10, 160), strict=True):
        part = desk.stage(batch, desk.join(epoch), spans=[planned.span])
        desk.publish(batch, replace(part, seconds=seconds))
    assert widths(desk, epoch, 1) == [5]


@pytest.mark.usefixtures("few")
def test_a_batch_whose_time_is_not_known_teaches_nothing(desk: Desk) -> None:
    """A member of an older version drained it."""
    desk.grow(100, 0)
    assert widths(desk, desk.open("run", TIMED).epoch, 2) == [8, 8]


@pytest.mark.usefixtures("few")
def test_a_publish_that_takes_long_bounds_the_next_batch(desk: Desk) -> None:
    """It holds the region's lock all the while."""
    desk.grow(100, 0)
    epoch = desk.open("run", TIMED).epoch
    timed(desk, epoch, 1)
    desk.sql(f"UPDATE tidemark.batches SET publish_seconds = 200 WHERE {desk.here}")
    assert timed(desk, epoch, 1) == 4


def worked(desk: Desk, quiet_from: int = 2) -> int:
    """Six checkpoints; the second partition is quiet after some; the epoch of the last run."""
    for n in range(6):
        epoch = desk.open(f"run {n}").epoch
        desk.work(epoch)
        desk.grow(5, 0)
        if n + 1 < quiet_from:
            desk.grow(5, 1)
    return epoch


def test_old_checkpoints_are_pruned_and_a_partitions_newest_boundary_never(desk: Desk) -> None:
    """S18."""
    epoch = worked(desk)
    offsets, rows = desk.offsets(), desk.rows()
    prune(desk.ledger, desk.region, epoch, retain=2)
    assert [one.seq for one in LedgerQueries(desk.engine).checkpoints(desk.region)][:2] == [6, 5]
    spans = f"SELECT partition, seq FROM tidemark.spans WHERE {desk.here} ORDER BY 1, 2"
    assert desk.sql(spans) == [(0, 5), (0, 6), (1, 2)]
    assert LedgerQueries(desk.engine).broken_chains(desk.region) == []
    assert (desk.offsets(), desk.rows()) == (offsets, rows)
    initial = f"SELECT DISTINCT initial_offset FROM tidemark.partitions WHERE {desk.here}"
    assert desk.sql(initial) == [(0,)]


def test_dead_letters_outlive_their_checkpoint(desk: Desk) -> None:
    epoch = worked(desk)
    dead_letters = desk.dead_letters()
    prune(desk.ledger, desk.region, epoch, retain=1)
    assert desk.dead_letters() == dead_letters != []


def test_a_batch_without_its_dead_letters_goes_with_a_later_prune(desk: Desk) -> None:
    epoch = worked(desk)
    prune(desk.ledger, desk.region, epoch, retain=1)
    batches = f"SELECT count(*) FROM tidemark.batches WHERE {desk.here}"
    [(before,)] = desk.sql(batches)
    desk.sql(f"DELETE FROM tidemark.dead_letters WHERE {desk.here}")
    prune(desk.ledger, desk.region, epoch, retain=1)
    [(after,)] = desk.sql(batches)
    assert 1 <= after < before


def test_the_view_for_dashboards_counts_the_dead_letters_that_there_are(desk: Desk) -> None:
    """After a prune and after a rewind as well."""
    view = f"SELECT dead_letters FROM tidemark.region_status WHERE {desk.here}"
    epoch = worked(desk)
    [(before,)] = desk.sql(view)
    prune(desk.ledger, desk.region, epoch, retain=3)
    assert desk.sql(view) == [(before,)] == [(len(desk.dead_letters()),)]
    desk.rewind(4)
    [(after,)] = desk.sql(view)
    assert 0 < after == len(desk.dead_letters()) < before


def test_a_run_that_was_given_overrides_is_never_forgotten(desk: Desk) -> None:
    """Else, cleared when it is old, it would have them again."""
    desk.open("plain")
    desk.open("given", overrides=("accept_data_loss",))
    prune(desk.ledger, desk.region, worked(desk), retain=1)
    assert desk.ledger.run_of(desk.region, "plain") is None
    assert desk.ledger.used_overrides(desk.region, "given") == {"accept_data_loss": 2}


def test_pruning_goes_on_where_its_time_ended(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """S18: each step leaves a ledger that is whole."""
    monkeypatch.setattr(retire, "PRUNE_STEP", 2)
    monkeypatch.setattr(retire, "TIDYING_SECONDS", 0)
    epoch, found = worked(desk), []
    for _ in range(4):
        prune(desk.ledger, desk.region, epoch, retain=1)
        found.append([one.seq for one in LedgerQueries(desk.engine).checkpoints(desk.region)])
        assert LedgerQueries(desk.engine).broken_chains(desk.region) == []
    assert found == [[6, 5, 4, 3, 2], [6, 5, 4], [6], [6]]
