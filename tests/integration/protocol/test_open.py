"""Opening where something has changed or was lost: refused, or told to go on and written down."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.desk import CLUSTER, TOPIC, Desk
from tests.support.world import dump

from tidemark.errors import DataLost
from tidemark.ledger.queries import LedgerQueries
from tidemark.model.errors import LeftTopicsGone, NextOffsetsNotHeld, NotHeld, OtherCluster
from tidemark.model.offsets import TopicPartition
from tidemark.model.overrides import ACCEPT_CHANGES, ACCEPT_DATA_LOSS
from tidemark.model.plan import Bounds
from tidemark.model.state import Mirrored
from tidemark.protocol.errors import (
    ChangedSinceCheckpoint,
    OpenOvertaken,
    RunsResetTooOften,
    SettingDiffers,
)
from tidemark.protocol.open import OpenRequest
from tidemark.protocol.reset import ResetRequest
from tidemark.protocol.settle import Settled, settle

FIRST, SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
MADE_WITH = {"decode.schema.id": "bigint", "transform": "none"}


def open_with(desk: Desk, **changes: Any) -> Settled:
    """An open that is not like the others."""
    usual = OpenRequest("changed", Bounds(1000), desk.facts, desk.epoch, desk.tables)
    request = replace(usual, **changes)
    return settle(desk.ledger, desk.group, desk.region, request)


def remarks(desk: Desk) -> list[str]:
    """What the newest open found and did not stop at."""
    state = desk.ledger.region_state(desk.region)
    run = desk.ledger.run_at(desk.region, state.epoch) if state else None
    assert run is not None
    return run.remarks


def test_another_configuration_is_refused_field_by_field(desk: Desk) -> None:
    desk.work(open_with(desk, fingerprint=MADE_WITH).epoch)
    before = dump(desk.warehouse)
    now = {"decode.schema.id": "string", "decode.schema.name": "string"}
    with pytest.raises(ChangedSinceCheckpoint) as refused:
        open_with(desk, fingerprint=now)
    assert dump(desk.warehouse) == before
    assert refused.value.changes == (
        SettingDiffers("decode.schema.id", "bigint", "string"),
        SettingDiffers("decode.schema.name", None, "string"),
        SettingDiffers("transform", "none", None),
    )


def test_a_column_that_may_be_added_may_not_change_its_type(desk: Desk) -> None:
    """B20: what an open adds is new to the checkpoint."""
    desk.work(open_with(desk, fingerprint=MADE_WITH).epoch)
    added = frozenset({"decode.schema.id", "decode.schema.name"})
    with pytest.raises(ChangedSinceCheckpoint) as refused:
        open_with(desk, fingerprint=MADE_WITH | {"decode.schema.id": "string"}, added=added)
    assert refused.value.changes == (SettingDiffers("decode.schema.id", "bigint", "string"),)
    open_with(desk, fingerprint=MADE_WITH | {"decode.schema.name": "string"}, added=added)
    assert remarks(desk) == []


def test_an_accepted_change_is_written_down_and_is_the_new_fingerprint(desk: Desk) -> None:
    desk.work(open_with(desk, fingerprint=MADE_WITH).epoch)
    now = MADE_WITH | {"transform": "jobs.flights:transform"}
    open_with(desk, fingerprint=now, overrides=(ACCEPT_CHANGES,))
    assert remarks(desk) == ["accepted: transform was 'none' and is 'jobs.flights:transform'"]
    open_with(desk, fingerprint=now)
    assert remarks(desk) == []


def test_a_first_configuration_is_corrected_while_there_is_no_checkpoint(desk: Desk) -> None:
    open_with(desk, fingerprint=MADE_WITH | {"transform": "jobs.fligths:transform"})
    desk.work(open_with(desk, fingerprint=MADE_WITH).epoch)
    with pytest.raises(ChangedSinceCheckpoint):
        open_with(desk, fingerprint=MADE_WITH | {"transform": "jobs.flights:transform"})


def test_an_open_whose_facts_are_older_than_another_open_is_superseded(desk: Desk) -> None:
    """H18: told to go on, it would begin again at the end that it saw, and double what followed."""
    facts, epoch = desk.facts, desk.epoch
    desk.grow(10)
    desk.work(desk.open("newer").epoch)
    before = dump(desk.warehouse)
    with pytest.raises(OpenOvertaken) as overtaken:
        open_with(desk, facts=facts, epoch=epoch, overrides=(ACCEPT_DATA_LOSS,))
    assert (overtaken.value.run_id, overtaken.value.epoch) == ("changed", 0)
    assert dump(desk.warehouse) == before


def test_when_every_known_partition_is_gone_the_new_ones_begin_at_their_start(desk: Desk) -> None:
    """A pattern whose topics were all replaced."""
    desk.work(desk.open().epoch)
    new = TopicPartition("made_up_2", 0)
    facts = replace(desk.facts, topic_ids={"made_up_2": "id-2"}, ends={new: 7}, log_starts={new: 2})
    open_with(desk, facts=facts, overrides=(ACCEPT_DATA_LOSS,))
    assert desk.offsets() == {new: 2}


def test_a_topic_that_was_left_and_deleted_stops_the_open_until_told(desk: Desk) -> None:
    """Its offsets can't be mirrored any more: Kafka refuses them for a topic that is gone."""
    desk.work(desk.open().epoch)
    left = frozenset({TOPIC})
    facts = replace(desk.facts, ends={}, topic_ids={}, unsubscribed=left, gone=left)
    with pytest.raises(LeftTopicsGone) as gone:
        open_with(desk, facts=facts)
    assert gone.value.topics == (TOPIC,)
    open_with(desk, facts=facts, overrides=(ACCEPT_DATA_LOSS,))
    assert remarks(desk) == [f"no longer read, and gone from Kafka: {TOPIC}[0-1]"]
    assert desk.offsets() == {}


def test_data_loss_is_not_accepted_with_other_overrides(desk: Desk) -> None:
    desk.work(desk.open().epoch)
    desk.log_starts[FIRST] = 12
    desk.grow(10)
    with pytest.raises(NextOffsetsNotHeld) as lost:
        open_with(desk, facts=desk.facts, overrides=(ACCEPT_CHANGES,))
    assert lost.value.partitions == (NotHeld(FIRST, 10, (12, 20)),)


@pytest.mark.parametrize(
    ("lose", "goes_on", "spans"),
    [
        ({"log_starts": {FIRST: 15, SECOND: 0}}, 15, [(15, 20)]),
        ({"ends": {FIRST: 4, SECOND: 10}}, 4, []),
        ({"topic_ids": {TOPIC: "id-2"}}, 0, [(0, 20), (0, 10)]),
        ({"cluster_id": "other"}, 0, [(0, 20), (0, 10)]),
    ],
    ids=["retention", "truncation", "created again", "another cluster"],
)
def test_told_to_go_on_a_partition_begins_a_new_history_and_the_ledger_says_so(
    desk: Desk, lose: dict[str, Any], goes_on: int, spans: list[tuple[int, int]]
) -> None:
    desk.work(desk.open().epoch)
    desk.grow(10)
    facts = replace(desk.facts, **lose)
    with pytest.raises(DataLost):
        open_with(desk, facts=facts)
    epoch = open_with(desk, facts=facts, overrides=(ACCEPT_DATA_LOSS,)).epoch
    assert f"accepted: {FIRST} goes on at {goes_on}, the ledger stood at 10" in remarks(desk)
    assert desk.offsets()[FIRST] == goes_on
    histories = (
        "SELECT initial_offset, next_offset, ended_epoch FROM tidemark.partitions"
        f" WHERE {desk.here} AND partition = 0 ORDER BY partition_id"
    )
    assert desk.sql(histories) == [(0, 10, epoch), (goes_on, goes_on, None)]
    assert desk.group.offsets == desk.offsets()
    desk.topic_id = facts.topic_ids[TOPIC]
    desk.log_starts |= facts.log_starts
    desk.ends |= facts.ends
    batch = desk.plan(epoch)
    planned = [(p.span.start, p.span.end) for p in batch.spans] if batch else []
    assert sorted(planned) == sorted(spans)
    if batch:
        desk.publish(batch, desk.stage(batch, desk.join(epoch)))
    assert LedgerQueries(desk.engine).broken_chains(desk.region) == []


def test_a_dead_letter_of_another_history_is_another_record(desk: Desk) -> None:
    desk.work(desk.open().epoch)
    assert (0, 3) in desk.dead_letters()
    desk.topic_id = "id-2"
    desk.work(desk.open("told", overrides=(ACCEPT_DATA_LOSS,)).epoch)
    assert desk.dead_letters().count((0, 3)) == 2


def test_a_partition_that_is_gone_ends_and_the_others_go_on(desk: Desk) -> None:
    desk.work(desk.open().epoch)
    del desk.ends[SECOND], desk.log_starts[SECOND]
    desk.open("told", overrides=(ACCEPT_DATA_LOSS,))
    assert remarks(desk) == [f"accepted: {SECOND} is gone, the ledger stood at 10"]
    assert desk.offsets() == {FIRST: 10}


def test_topics_that_are_no_longer_read_are_left_where_they_stand(desk: Desk) -> None:
    desk.work(desk.open().epoch)
    facts = replace(desk.facts, ends={}, topic_ids={}, unsubscribed=frozenset({TOPIC}))
    open_with(desk, facts=facts)
    assert desk.offsets() == {FIRST: 10, SECOND: 10}


def test_runs_that_are_reset_again_and_again_stop_until_a_person_resets(desk: Desk) -> None:
    """S17."""
    for n in range(2):
        epoch = open_with(desk, run_id=f"run {n}", max_consecutive_resets=2).epoch
        desk.reset(f"run {n}", epoch)
    with pytest.raises(RunsResetTooOften) as refused:
        open_with(desk, max_consecutive_resets=2)
    assert (refused.value.resets, refused.value.limit) == (2, 2)
    desk.reset()
    desk.work(open_with(desk, max_consecutive_resets=2).epoch)


def test_a_checkpoint_clears_the_count_of_resets(desk: Desk) -> None:
    epoch = desk.open("first", Bounds(4)).epoch
    desk.reset("first", epoch)
    epoch = desk.open("second", Bounds(4)).epoch
    desk.work(epoch)
    desk.reset("second", epoch)
    state = desk.ledger.region_state(desk.region)
    assert state is not None
    assert state.consecutive_resets == 1


def test_a_ledger_older_than_its_mirror_is_named_and_goes_on_from_the_ledger(desk: Desk) -> None:
    """Postgres came back from a backup: epochs and seqs of the lost time are not used again."""
    desk.work(desk.open(bounds=Bounds(4)).epoch)
    desk.group.offsets[FIRST] = 9
    settled = open_with(desk, mirrored=Mirrored(epoch=7, seq=12))
    assert settled.epoch == 8
    assert "older than its mirror" in remarks(desk)[0]
    assert desk.offsets()[FIRST] == 2 == desk.group.offsets[FIRST]
    assert desk.must_plan(settled.epoch).seq == 13


def test_a_reset_passes_the_epochs_of_the_lost_time_too(desk: Desk) -> None:
    desk.open()
    request = ResetRequest("test", "a test", mirrored=Mirrored(epoch=7, seq=12))
    assert settle(desk.ledger, desk.group, desk.region, request).epoch == 8


def test_the_cluster_of_the_ledger_is_the_one_that_was_accepted(desk: Desk) -> None:
    desk.work(desk.open().epoch)
    other = replace(desk.facts, cluster_id="other")
    open_with(desk, facts=other, overrides=(ACCEPT_DATA_LOSS,))
    open_with(desk, facts=other)
    with pytest.raises(OtherCluster) as refused:
        open_with(desk, facts=replace(desk.facts, cluster_id=CLUSTER))
    assert (refused.value.known, refused.value.found) == ("other", CLUSTER)
