"""Two batches in flight: batches become visible in their order."""

from dataclasses import replace

import pytest
from tests.support.desk import TOPIC, Desk
from tests.support.failpoint import failpoint

from tidemark.ledger.errors import EpochHasPassed
from tidemark.model.batch import Batch
from tidemark.model.offsets import LogPosition, TopicPartition
from tidemark.model.plan import Bounds
from tidemark.protocol.errors import OwnRowsLost, RunUnfinished
from tidemark.protocol.publish import Result

TWO = Bounds(8, in_flight=2)


@pytest.fixture
def grown(desk: Desk) -> Desk:
    """Twenty offsets in each of two partitions."""
    desk.grow(10, 0)
    desk.grow(10, 1)
    return desk


def two(desk: Desk, bounds: Bounds = TWO) -> tuple[int, Batch, Batch]:
    """A run's epoch, and its two batches."""
    epoch = desk.open(bounds=bounds).epoch
    desk.plan_next(epoch)
    low, high = desk.plan_next(epoch)
    return epoch, low, high


def test_the_next_batch_begins_where_one_ends(grown: Desk) -> None:
    """Plans are made from what is planned, not from what is published."""
    epoch, low, high = two(grown)
    ends = {p.span.topic_partition: p.span.end for p in low.spans}
    assert {p.span.topic_partition: p.span.start for p in high.spans} == ends
    assert [batch.seq for batch in grown.plan_next(epoch)] == [low.seq, high.seq]


def test_a_batch_that_is_complete_first_waits_for_the_one_before(grown: Desk) -> None:
    """B18: the target never shows a batch without the one before it."""
    epoch, low, high = two(grown)
    member = grown.join(epoch)
    later = grown.stage(high, member)
    assert grown.publish(high, later).result is Result.contributed
    assert grown.rows() == []
    assert grown.publish_complete(epoch) is None
    assert grown.publish(low, grown.stage(low, member)).seq == low.seq
    outcome = grown.publish_complete(epoch)
    assert outcome
    assert (outcome.seq, outcome.rows) == (high.seq, sum(later.rows.values()))
    assert grown.rows() == grown.expected_rows() != []
    assert grown.publish_complete(epoch) is None


def test_whoever_looks_publishes_what_others_completed(grown: Desk) -> None:
    """Who published the first may die before the second."""
    epoch, low, high = two(grown)
    grown.publish(high, grown.stage(high, grown.join(epoch)))
    with failpoint("publish.commit.sent"):
        grown.publish(low, grown.stage(low, grown.join(epoch)))
    with failpoint("publish.commit.sent"):
        assert grown.publish_complete(epoch) is None  # a second look finds it published
    state = grown.ledger.region_state(grown.region)
    assert state
    assert state.head_seq == high.seq
    assert grown.rows() == grown.expected_rows()


def test_a_batch_without_the_one_before_it_can_not_become_the_head(grown: Desk) -> None:
    """The order holds also where the two share no partition: no offset would notice."""
    epoch, low, high = two(grown, Bounds(1, in_flight=2))
    assert {p.span.topic_partition for p in low.spans}.isdisjoint(
        p.span.topic_partition for p in high.spans
    )
    grown.sql(f"UPDATE tidemark.regions SET head_seq = 0 WHERE {grown.here}")
    with grown.ledger.deciding(grown.region, epoch, "x") as tx:
        assert tx.advance_head(high) == 0
        assert tx.advance_head(low) == 1
        assert tx.advance_head(high) == 1


def test_what_is_staged_counts_though_the_publish_comes_later(grown: Desk) -> None:
    """A claim without its rows would end the epoch: the member drains them again instead."""
    epoch, _, high = two(grown)
    member = grown.join(epoch)
    lost = grown.stage(high, member)
    grown.lose_staging()
    with pytest.raises(OwnRowsLost) as found:
        grown.publish(high, lost)
    assert (found.value.seq, found.value.rows) == (high.seq, 0)
    assert len(grown.plan_next(epoch)[1].unclaimed) == len(high.spans)
    assert grown.publish(high, grown.stage(high, member, 1)).result is Result.contributed


def test_an_open_and_a_reset_discard_both(grown: Desk) -> None:
    epoch, low, high = two(grown)
    staged = [(batch, grown.stage(batch, grown.join(epoch))) for batch in (low, high)]
    assert grown.open("second", TWO).discarded_seqs == (low.seq, high.seq)
    for batch, contribution in staged:
        with pytest.raises(EpochHasPassed) as passed:
            grown.publish(batch, contribution)
        assert (passed.value.epoch, passed.value.found) == (epoch, epoch + 1)
    grown.plan_next(grown.epoch)
    seqs = [batch.seq for batch in grown.plan_next(grown.epoch)]
    assert seqs == [high.seq + 1, high.seq + 2]
    assert grown.reset().discarded_seqs == tuple(seqs)
    assert grown.ledger.unpublished_seqs(grown.region) == []


def test_after_a_reset_one_is_in_flight_until_batches_have_their_size(grown: Desk) -> None:
    grown.reset()
    epoch = grown.open(bounds=Bounds(16, in_flight=2)).epoch
    found = []
    while batches := grown.plan_next(epoch):
        batches = grown.plan_next(epoch)
        found.append(len(batches))
        grown.publish(batches[0], grown.stage(batches[0], grown.join(epoch)))
    assert found == [1, 1, 1, 1, 2, 1]
    assert grown.rows() == grown.expected_rows()


def test_the_bound_of_a_run_counts_what_is_planned(grown: Desk) -> None:
    epoch, low, high = two(grown, Bounds(4, max_batches=2, in_flight=2))
    grown.publish(low, grown.stage(low, grown.join(epoch)))
    assert [batch.seq for batch in grown.plan_next(epoch)] == [high.seq]
    with pytest.raises(RunUnfinished) as unfinished:
        grown.close()
    assert unfinished.value.reasons == (f"batch {high.seq} is planned and not published",)
    assert not grown.ledger.progress(grown.region, epoch).is_done


def test_a_run_is_not_done_while_a_batch_is_unpublished(grown: Desk) -> None:
    """Planned ends prove nothing."""
    epoch, low, high = two(grown, Bounds(20, in_flight=2))
    member = grown.join(epoch)
    for batch in (low, high):
        assert not grown.ledger.progress(grown.region, epoch).is_done
        assert grown.plan_next(epoch)
        grown.publish(batch, grown.stage(batch, member))
    assert grown.ledger.progress(grown.region, epoch).is_done
    assert grown.close().batches == 2


def test_a_span_follows_what_was_read_before_it(grown: Desk) -> None:
    """KIP-320: as claimed; as the contribution says that is on its way; else by the partition."""
    epoch, low, high = two(grown)
    place = TopicPartition(TOPIC, 0)
    assert place not in high.read_up_to
    contribution = grown.stage(low, grown.join(epoch))
    position = LogPosition(3, 7)
    read = next(r for r in contribution.reads if r.span.topic_partition == place)
    followed = high.after([replace(read, read_up_to=position)])
    assert followed.read_up_to[place] == position
    others = LogPosition(0, 9)
    known = "SET record_end = %s, leader_epoch = %s WHERE " + grown.here
    grown.sql(f"UPDATE tidemark.partitions {known}", others)
    assert grown.plan_next(epoch)[1].read_up_to[place] == others
    own = grown.stage(low, grown.join(epoch), 1, [read.span])
    assert grown.publish(low, own).result is Result.contributed
    assert grown.plan_next(epoch)[1].read_up_to[place] == others  # the claim tells of no record
    grown.sql(f"UPDATE tidemark.spans {known} AND seq = {low.seq} AND partition = 0", position)
    assert grown.plan_next(epoch)[1].read_up_to[place] == position
    rest = [p.span for p in low.spans if p.span != read.span]
    grown.publish(low, grown.stage(low, grown.join(epoch), 2, rest))
    grown.sql(f"UPDATE tidemark.partitions {known}", others)
    assert grown.plan_next(epoch)[0].read_up_to[place] == others  # published: the partition knows
