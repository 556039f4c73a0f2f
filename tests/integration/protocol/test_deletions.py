"""How long deletions may have waited to be read, as the ledger tells it (G151, G152).

The topic keeps them for an hour. Compaction itself stands in pipelines/test_compaction.py.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.support.desk import TOPIC, Desk

from tidemark.ledger import regions
from tidemark.model.errors import DeletionsMayBeGone
from tidemark.model.offsets import Span, TopicPartition
from tidemark.model.overrides import ACCEPT_DATA_LOSS
from tidemark.model.plan import MAX_BIGINT, Bounds
from tidemark.postgres.session import Cursor
from tidemark.protocol.open import OpenRequest
from tidemark.protocol.publish import Result
from tidemark.protocol.settle import settle

FIRST, SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
HOUR = 3_600_000
TOLD = (ACCEPT_DATA_LOSS,)


@pytest.fixture
def keeping(desk: Desk) -> Desk:
    """Twenty offsets are read; the topic keeps deletions for an hour."""
    desk.deletions = {TOPIC: HOUR}
    run(desk)
    return desk


def run(desk: Desk, **changes: Any) -> None:
    desk.work(desk.open(**changes).epoch)


def remarks(desk: Desk) -> list[str]:
    [(found,)] = desk.sql(
        f"SELECT remarks FROM tidemark.runs WHERE {desk.here} ORDER BY epoch DESC LIMIT 1"
    )
    return list(found)


def refused(desk: Desk, **changes: Any) -> list[Span]:
    with pytest.raises(DeletionsMayBeGone) as lost:
        desk.open(**changes)
    return [one.span for one in lost.value.waiting]


def test_what_waited_for_longer_than_it_is_kept_stops_the_open_until_told(keeping: Desk) -> None:
    keeping.grow(5, 1)
    keeping.rest(61)
    assert refused(keeping) == [Span(TOPIC, 1, 10, 15)]
    run(keeping, overrides=TOLD)
    [told] = remarks(keeping)
    assert told.startswith(f"accepted: deletions in {Span(TOPIC, 1, 10, 15)} may have waited")
    keeping.grow(5, 1)
    run(keeping)
    assert remarks(keeping) == []


def test_half_of_the_time_is_a_remark(keeping: Desk) -> None:
    keeping.grow(5)
    keeping.rest(20)
    keeping.open()
    assert remarks(keeping) == []
    keeping.rest(20)
    keeping.open()
    [told] = remarks(keeping)
    assert told.startswith(f"deletions in {Span(TOPIC, 0, 10, 15)} may have waited for 4")


def test_where_nothing_was_written_nothing_was_lost(keeping: Desk) -> None:
    keeping.rest(10_000)
    keeping.open()
    assert remarks(keeping) == []


def test_runs_that_do_not_come_to_the_end_do_not_shorten_the_wait(keeping: Desk) -> None:
    """Each opens soon after the one before, and reads ten offsets of twenty."""
    keeping.grow(40)
    for _ in range(2):
        keeping.rest(25)
        run(keeping, bounds=Bounds(10))
    keeping.grow(40)
    keeping.rest(15)
    assert refused(keeping) == [Span(TOPIC, 0, 30, 90)]
    run(keeping, overrides=TOLD, bounds=Bounds(10))
    keeping.rest(25)  # a person accepted what had waited until then
    run(keeping, bounds=Bounds(10))
    keeping.rest(36)
    assert refused(keeping) == [Span(TOPIC, 0, 50, 90)]


def test_a_first_read_that_takes_longer_stops(desk: Desk) -> None:
    """A key's value was read before its deletion was taken, the deletion would be read after."""
    desk.deletions = {TOPIC: HOUR}
    run(desk, bounds=Bounds(10))
    desk.rest(61)
    assert refused(desk) == [Span(TOPIC, 0, 5, 10), Span(TOPIC, 1, 5, 10)]


def test_a_run_that_takes_longer_plans_no_more(keeping: Desk) -> None:
    """G152: what it has read stands."""
    keeping.grow(20)
    epoch = keeping.open(bounds=Bounds(10)).epoch
    keeping.work(epoch)
    keeping.rest(61)
    with pytest.raises(DeletionsMayBeGone) as lost:
        keeping.plan(epoch)
    assert [one.span for one in lost.value.waiting] == [Span(TOPIC, 0, 20, 30)]
    told = keeping.open(overrides=TOLD).epoch
    keeping.rest(61)  # a topic may keep them for less than a run takes: it was accepted
    keeping.work(told)
    assert keeping.offsets()[FIRST] == 30


def test_a_batch_that_is_read_late_is_not_published(keeping: Desk) -> None:
    """G152: it was planned in time; a slow job or a retry reads it when deletions are gone."""
    keeping.grow(20)
    epoch = keeping.open(bounds=Bounds(10)).epoch
    batch, member = keeping.must_plan(epoch), keeping.join(epoch)
    keeping.rest(61)
    rows = keeping.rows()
    with pytest.raises(DeletionsMayBeGone) as lost:
        keeping.publish(batch, keeping.stage(batch, member))
    assert [one.span for one in lost.value.waiting] == [Span(TOPIC, 0, 10, 30)]
    assert (keeping.rows(), keeping.offsets()[FIRST]) == (rows, 10)
    run(keeping, overrides=TOLD)
    assert keeping.rows() == keeping.expected_rows()


def test_a_first_batch_that_is_read_late_is_not_published(desk: Desk) -> None:
    """Its partitions are new in the open that says until when their deletions are kept."""
    desk.deletions = {TOPIC: HOUR}
    epoch = desk.open().epoch
    batch, member = desk.must_plan(epoch), desk.join(epoch)
    desk.rest(61)
    with pytest.raises(DeletionsMayBeGone):
        desk.publish(batch, desk.stage(batch, member))
    assert desk.rows() == []


def test_a_late_copy_of_what_is_claimed_is_refused_and_loses_nothing(keeping: Desk) -> None:
    keeping.grow(20)
    keeping.grow(20, 1)
    epoch = keeping.open().epoch
    batch, member = keeping.must_plan(epoch), keeping.join(epoch)
    some = keeping.stage(batch, member, spans=[batch.spans[0].span])
    assert keeping.publish(batch, some).result == Result.contributed
    keeping.rest(61)
    assert keeping.publish(batch, some).result == Result.refused


def test_what_is_overdue_only_after_the_check_is_accepted_by_nobody(keeping: Desk) -> None:
    """G152: the open writes it as it is, and the plan refuses it."""
    keeping.grow(5)
    keeping.rest(61)
    request = OpenRequest("run", Bounds(10), keeping.facts, keeping.epoch, keeping.tables)
    with keeping.ledger.settling(keeping.region, "open") as tx:
        epoch = tx.take_epoch(request.mirrored)
        request.write(tx, epoch, ())
    [told] = remarks(keeping)
    assert not told.startswith("accepted")
    with pytest.raises(DeletionsMayBeGone):
        keeping.plan(epoch)


def test_an_open_looks_once_and_what_it_finds_grows_with_the_clock(
    keeping: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping.grow(5)
    looks = list[str]()
    look = regions.times_unread

    def counted(cursor: Cursor, region: str) -> regions.TimesUnread:
        looks.append(region)
        return look(cursor, region)

    monkeypatch.setattr(regions, "times_unread", counted)
    keeping.open()
    assert len(looks) == 1
    with keeping.ledger.settling(keeping.region, "open") as tx:
        before, after = tx.unread(), tx.unread()
    assert len(looks) == 2
    assert after[FIRST].seconds > before[FIRST].seconds


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for one in plan.get("Plans", ()):
        yield from nodes(one)


def test_a_time_that_was_raised_meanwhile_brings_nothing_back(keeping: Desk) -> None:
    keeping.deletions = {TOPIC: MAX_BIGINT}
    keeping.grow(5)
    keeping.rest(61)
    assert refused(keeping) == [Span(TOPIC, 0, 10, 15)]
    keeping.deletions = {TOPIC: None}  # nor does a topic that is compacted no longer
    assert refused(keeping) == [Span(TOPIC, 0, 10, 15)]
    run(keeping, overrides=TOLD)
    keeping.grow(5)
    keeping.rest(61)
    run(keeping)


def test_a_topic_that_is_compacted_since_is_judged_by_what_it_keeps_now(desk: Desk) -> None:
    desk.deletions = {TOPIC: None}
    run(desk)
    desk.grow(5)
    desk.rest(61)
    desk.open()
    assert remarks(desk) == []
    desk.deletions = {TOPIC: HOUR}
    desk.rest(61)
    assert refused(desk) == [Span(TOPIC, 0, 10, 15)]


def test_a_topic_whose_settings_may_not_be_asked_for_is_a_remark(keeping: Desk) -> None:
    keeping.deletions = {}
    keeping.grow(5)
    keeping.open()
    [told] = remarks(keeping)
    assert told.startswith(f"topic {TOPIC}: whether compaction took deletions")
    keeping.rest(61)  # the open before it knew
    assert refused(keeping) == [Span(TOPIC, 0, 10, 15)]


def test_a_rewind_reads_again_what_has_waited_since_its_checkpoint(keeping: Desk) -> None:
    keeping.grow(5)
    keeping.rest(40)
    run(keeping)
    keeping.rest(21)
    keeping.rewind(1)
    assert refused(keeping) == [Span(TOPIC, 0, 10, 15)]


def test_a_topic_that_the_region_left_has_waited_since_it_was_left(keeping: Desk) -> None:
    """Runs in between say nothing of it."""
    facts = keeping.facts
    usual = OpenRequest("left", Bounds(1000), facts, keeping.epoch, keeping.tables)
    left = replace(facts, topic_ids={}, log_starts={}, ends={}, unsubscribed=frozenset({TOPIC}))
    keeping.rest(40)
    settle(keeping.ledger, keeping.group, keeping.region, replace(usual, facts=left))
    keeping.grow(5)
    keeping.rest(21)
    assert refused(keeping) == [Span(TOPIC, 0, 10, 15)]


def test_a_partition_that_appears_later_waits_from_then_on(keeping: Desk) -> None:
    keeping.rest(61)
    third = TopicPartition(TOPIC, 2)
    keeping.ends[third], keeping.log_starts[third] = 30, 0
    run(keeping, bounds=Bounds(10))
    keeping.rest(40)
    run(keeping, bounds=Bounds(10))
    keeping.rest(21)
    assert refused(keeping) == [Span(TOPIC, 2, 20, 30)]


def test_a_log_that_was_created_again_waits_from_its_first_read_on(keeping: Desk) -> None:
    keeping.rest(61)
    keeping.topic_id, keeping.ends = "id-2", {FIRST: 30, SECOND: 0}
    run(keeping, overrides=TOLD, bounds=Bounds(10))
    keeping.rest(40)
    run(keeping, bounds=Bounds(10))


def test_what_an_older_version_wrote_is_as_old_as_its_region(keeping: Desk) -> None:
    """It kept neither when a log was first known, nor where its stable end was."""
    keeping.grow(5)
    keeping.rest(20)
    run(keeping)
    keeping.grow(5)
    keeping.sql(
        "UPDATE tidemark.runs SET asked_at = NULL, deletions_until = NULL WHERE " + keeping.here
    )
    keeping.sql("UPDATE tidemark.partitions SET known_since = NULL WHERE " + keeping.here)
    keeping.sql(f"UPDATE tidemark.run_targets SET deletions_kept_ms = NULL WHERE {keeping.here}")
    keeping.rest(50)
    run(keeping)
    keeping.rest(61)
    keeping.grow(5)
    assert refused(keeping) == [Span(TOPIC, 0, 20, 25)]
