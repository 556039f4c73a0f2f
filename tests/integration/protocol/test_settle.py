"""Open and reset: a new epoch, nothing unpublished, Kafka equal to the ledger."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from tests.support.desk import TOPIC, Desk
from tests.support.failpoint import failpoint
from tests.support.said import said
from tests.support.world import dump

from tidemark.errors import DataLost, Fenced, MirrorFailed
from tidemark.failpoints import FailpointHit
from tidemark.model.batch import Checkpoint
from tidemark.model.errors import (
    NextOffsetsNotHeld,
    NotHeld,
    OtherCluster,
    TopicNotThatOfTheLedger,
)
from tidemark.model.offsets import Span, TopicPartition
from tidemark.model.plan import Bounds
from tidemark.protocol import close as close_module
from tidemark.protocol.errors import MirrorEpochPassed, RunUnfinished, SettleDidNotHappen
from tidemark.protocol.mirror import mirror
from tidemark.protocol.open import OpenRequest
from tidemark.protocol.settle import settle

FIRST, SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


def state(desk: Desk) -> tuple[int, int, int]:
    """Epoch, head and next seq."""
    found = desk.ledger.region_state(desk.region)
    assert found is not None
    return found.epoch, found.head_seq, found.next_seq


def test_an_old_batch_is_never_adopted(desk: Desk) -> None:
    """H4: the new epoch plans anew from the ledger's offsets, under a new seq."""
    old = desk.must_plan(desk.open("first", Bounds(4)).epoch)
    new = desk.must_plan(desk.open("second", Bounds(6)).epoch)
    assert new.seq > old.seq
    assert sum(p.span.width for p in old.spans) == 4
    assert sum(p.span.width for p in new.spans) == 6


def test_a_plan_is_fixed_within_its_epoch(desk: Desk) -> None:
    """H4: a retry takes the plan that is there, claimed spans and all."""
    epoch = desk.open().epoch
    batch = desk.must_plan(epoch)
    desk.publish(batch, desk.stage(batch, desk.join(epoch), spans=[batch.spans[0].span]))
    desk.grow(50)
    again = desk.must_plan(epoch)
    assert [p.span for p in again.spans] == [p.span for p in batch.spans]
    assert [p.claimed for p in again.spans] == [True, False]


def test_targets_are_those_seen_at_open(desk: Desk) -> None:
    """H16."""
    epoch = desk.open().epoch
    desk.grow(50)
    assert sum(p.span.width for p in desk.must_plan(epoch).spans) == 20


def test_no_backlog_gives_no_batch(desk: Desk) -> None:
    """H15."""
    desk.work(desk.open("first").epoch)
    assert desk.plan(desk.open("second").epoch) is None
    assert desk.sql(f"SELECT count(*) FROM tidemark.batches WHERE {desk.here}") == [(1,)]


def test_initial_offsets_are_written_once(desk: Desk) -> None:
    """H19: a start at the end that is evaluated twice skips what came between."""
    at_end = replace(desk.facts, starts=dict(desk.ends))
    request = OpenRequest("first", Bounds(9), at_end, desk.epoch, desk.tables)
    settle(desk.ledger, desk.group, desk.region, request)
    desk.grow(5)
    later = replace(desk.facts, starts=dict(desk.ends))
    request = OpenRequest("second", Bounds(9), later, desk.epoch, desk.tables)
    settle(desk.ledger, desk.group, desk.region, request)
    assert desk.offsets() == {FIRST: 10, SECOND: 10}


THIRD = TopicPartition(TOPIC, 2)


def appeared(desk: Desk, at: TopicPartition, *overrides: str) -> list[str]:
    """Open where retention has taken 3 of a new partition's 8 records; the run's remarks."""
    desk.open("first")
    desk.ends[at], desk.log_starts[at] = 8, 3
    facts = desk.facts
    topic_ids = {at.topic: "id-2", **facts.topic_ids}
    facts = replace(facts, starts=dict(desk.ends), topic_ids=topic_ids)
    request = OpenRequest("second", Bounds(9), facts, desk.epoch, desk.tables, overrides)
    settle(desk.ledger, desk.group, desk.region, request)
    [(remarks,)] = desk.sql(
        f"SELECT remarks FROM tidemark.runs WHERE {desk.here} ORDER BY epoch DESC LIMIT 1"
    )
    return list(remarks)


def test_a_partition_that_appears_later_starts_at_its_beginning(desk: Desk) -> None:
    """H19: whatever the start position says now."""
    desk.open("first")
    desk.ends[THIRD], desk.log_starts[THIRD] = 8, 0
    facts = replace(desk.facts, starts=dict(desk.ends))
    request = OpenRequest("second", Bounds(9), facts, desk.epoch, desk.tables)
    settle(desk.ledger, desk.group, desk.region, request)
    assert desk.offsets()[THIRD] == 0


def test_what_retention_took_of_a_new_partition_is_lost(desk: Desk) -> None:
    """B7: of a topic that the region reads, before anybody could read it."""
    with pytest.raises(NextOffsetsNotHeld) as caught:
        appeared(desk, THIRD)
    assert caught.value.partitions == (NotHeld(THIRD, 0, (3, 8)),)


def test_what_retention_took_of_a_new_partition_is_accepted_and_told(desk: Desk) -> None:
    """B7."""
    remarks = appeared(desk, THIRD, "accept_data_loss")
    assert desk.offsets()[THIRD] == 3
    assert [one for one in remarks if str(Span(*THIRD, 0, 3)) in one]


def test_what_retention_took_of_a_new_topic_is_told(desk: Desk) -> None:
    """B7, S24: the region has never known the topic, so it stops nothing."""
    at = TopicPartition(f"{TOPIC}-2", 0)
    remarks = appeared(desk, at)
    assert desk.offsets()[at] == 3
    assert [one for one in remarks if str(Span(*at, 0, 3)) in one]


def test_open_mirrors_even_when_the_values_look_equal(desk: Desk) -> None:
    """H9g: an older writer that is not fenced would land later."""
    desk.open("first")
    with desk.group.writer() as paused:
        desk.open("second")
        with pytest.raises(Fenced):
            paused.commit({FIRST: 0, SECOND: 0}, "")


@pytest.mark.parametrize("point", ["open.before", "open.inside", "open.commit.before"])
def test_an_open_that_crashed_before_commit_never_was(desk: Desk, point: str) -> None:
    desk.open("first")
    before = dump(desk.warehouse)
    with failpoint(point), pytest.raises(FailpointHit):
        desk.open("second")
    assert dump(desk.warehouse) == before | {"sequences": dump(desk.warehouse)["sequences"]}


@pytest.mark.parametrize("point", ["open.commit.after", "open.decided", "mirror.before"])
def test_an_open_that_crashed_after_commit_is_opened_again(desk: Desk, point: str) -> None:
    desk.work(desk.open("first").epoch)
    with failpoint(point), pytest.raises(FailpointHit):
        desk.open("second")
    epoch = state(desk)[0]
    assert epoch == 2
    assert desk.open("second").epoch == 3
    assert desk.group.offsets == desk.offsets()


def test_an_open_whose_answer_was_lost_is_found(desk: Desk) -> None:
    with failpoint("open.commit.sent"):
        assert desk.open().epoch == 1
    assert desk.sql(f"SELECT count(*) FROM tidemark.runs WHERE {desk.here}") == [(1,)]


def test_an_open_that_never_arrived_says_so(desk: Desk) -> None:
    with failpoint("open.commit.lost"), pytest.raises(SettleDidNotHappen):
        desk.open()
    assert state(desk)[0] == 0


@pytest.mark.parametrize(("point", "epoch"), [("sent", 2), ("lost", 1)])
def test_a_reset_without_an_answer_is_looked_up(desk: Desk, point: str, epoch: int) -> None:
    desk.open()
    with failpoint(f"reset.commit.{point}"):
        if point == "sent":
            assert desk.reset().epoch == 2
        else:
            with pytest.raises(SettleDidNotHappen):
                desk.reset()
    assert state(desk)[0] == epoch


def test_a_reset_keeps_what_is_published_and_drops_what_is_not(desk: Desk) -> None:
    epoch = desk.open(bounds=Bounds(6)).epoch
    desk.work(epoch)
    batch = desk.must_plan(epoch)
    rows, offsets = desk.rows(), desk.offsets()
    assert desk.reset().discarded_seqs == (batch.seq,)
    assert (desk.rows(), desk.offsets()) == (rows, offsets)
    assert desk.group.offsets == offsets


def test_a_reset_lowers_what_kafka_is_ahead(desk: Desk) -> None:
    desk.work(desk.open().epoch)
    desk.group.offsets[FIRST] = 999
    desk.reset()
    assert desk.group.offsets == desk.offsets()


def test_resets_by_hand_at_once_take_one_epoch_each(desk: Desk) -> None:
    desk.open()

    def reset() -> None:
        with suppress(Fenced):  # overtaken before its mirror
            desk.reset()

    with ThreadPoolExecutor(6) as threads:
        for done in [threads.submit(reset) for _ in range(6)]:
            done.result()
    epochs = desk.sql(f"SELECT epoch FROM tidemark.resets WHERE {desk.here} ORDER BY 1")
    assert epochs == [(2,), (3,), (4,), (5,), (6,), (7,)]
    assert state(desk)[0] == 7


def test_a_reset_by_the_dag_counts_and_one_by_hand_clears(desk: Desk) -> None:
    count = f"SELECT consecutive_resets FROM tidemark.regions WHERE {desk.here}"
    for run_id in ("a", "b"):
        desk.reset(run_id, desk.open(run_id).epoch)
    assert desk.sql(count) == [(2,)]
    desk.reset()
    assert desk.sql(count) == [(0,)]


def test_a_settle_that_was_overtaken_before_its_mirror_is_fenced(desk: Desk) -> None:
    """Kafka then holds what the newer one wrote."""
    desk.open("first")
    mirrored = desk.ledger.merged_checkpoint

    def overtaken(region: str, at: int | None = None) -> Any:
        desk.ledger.merged_checkpoint = mirrored  # type: ignore[method-assign]
        desk.reset()
        return mirrored(region, at)

    desk.ledger.merged_checkpoint = overtaken  # type: ignore[method-assign]
    with pytest.raises(MirrorEpochPassed) as passed:
        desk.open("second")
    assert (passed.value.epoch, passed.value.now_at) == (2, 3)


@pytest.mark.parametrize(
    ("change", "case", "fact"),
    [
        ({"cluster_id": "other"}, OtherCluster, ("found", "other")),
        ({"topic_ids": {TOPIC: "id-2"}}, TopicNotThatOfTheLedger, ("found_id", "id-2")),
        ({"topic_ids": {}}, TopicNotThatOfTheLedger, ("found_id", None)),
        (
            {"log_starts": {FIRST: 12, SECOND: 0}},
            NextOffsetsNotHeld,
            ("partitions", (NotHeld(FIRST, 10, (12, 10)),)),
        ),
        (
            {"ends": {FIRST: 9, SECOND: 10}},
            NextOffsetsNotHeld,
            ("partitions", (NotHeld(FIRST, 10, (0, 9)),)),
        ),
        (
            {"ends": {FIRST: 10}},
            NextOffsetsNotHeld,
            ("partitions", (NotHeld(SECOND, 10, None),)),
        ),
    ],
)
def test_an_open_stops_where_kafka_lost_what_the_ledger_needs(
    desk: Desk, change: dict[str, Any], case: type[DataLost], fact: tuple[str, object]
) -> None:
    """H14 among them: an end below the ledger's offset looks like no backlog."""
    desk.work(desk.open("first").epoch)
    before = dump(desk.warehouse)
    facts = replace(desk.facts, **change)
    request = OpenRequest("second", Bounds(9), facts, desk.epoch, desk.tables)
    with pytest.raises(case) as lost:
        settle(desk.ledger, desk.group, desk.region, request)
    name, value = fact
    assert getattr(lost.value, name) == value
    assert dump(desk.warehouse) == before


def test_a_run_is_closed_at_the_head_that_was_read_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G140: a member that outlived its task publishes once close has mirrored."""
    epoch = desk.open().epoch
    last = partial(desk.work, epoch)

    def and_then_publish(*values: Any) -> Checkpoint:
        checkpoint = mirror(*values)
        monkeypatch.setattr(close_module, "mirror", differs)
        last()
        return checkpoint

    def differs(*_: object) -> None:
        raise said(MirrorFailed, "Kafka differs, as the test wants it")

    monkeypatch.setattr(close_module, "mirror", and_then_publish)
    with pytest.raises(RunUnfinished):
        desk.close()
    assert desk.sql(f"SELECT state FROM tidemark.runs WHERE {desk.here}") == [("failed",)]
    monkeypatch.setattr(close_module, "mirror", mirror)
    closed = desk.close()
    assert desk.group.offsets == closed.checkpoint.offsets == desk.offsets()


def test_a_reset_works_where_kafka_lost_what_the_ledger_needs(desk: Desk) -> None:
    desk.work(desk.open().epoch)
    desk.ends[FIRST] = 3
    assert desk.reset().epoch == 2


def test_a_plan_stops_where_the_topic_was_created_again(desk: Desk) -> None:
    """H13."""
    epoch = desk.open().epoch
    desk.topic_id = "id-2"
    with pytest.raises(TopicNotThatOfTheLedger) as lost:
        desk.plan(epoch)
    assert (lost.value.topic_id, lost.value.found_id) == ("id-1", "id-2")
    assert desk.sql(f"SELECT count(*) FROM tidemark.batches WHERE {desk.here}") == [(0,)]


def test_a_region_that_never_opened_can_be_reset(desk: Desk) -> None:
    """Its first open died after it had made the region."""
    assert desk.reset().epoch == 1
    assert desk.group.offsets == {}
