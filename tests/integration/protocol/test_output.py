"""Published rows in an output topic, once each, whatever interleaves: real Kafka, real Postgres."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from tests.support.executor import BAD
from tests.support.failpoint import failpoint, meanwhile
from tests.support.produce import good, produce
from tests.support.sent import another_sends, sent_to, too_slow
from tests.support.waiting import until
from tests.support.world import World, dump

from tidemark.admin.drop import drop_region
from tidemark.admin.mirror import mirror_region
from tidemark.admin.replay import replay_dead_letters
from tidemark.admin.withhold import withhold_batch
from tidemark.failpoints import FailpointHit
from tidemark.kafka import _mirror_writer as writer_module
from tidemark.kafka._mirror_writer import Sender
from tidemark.kafka.errors import MirrorWriterFenced, OutputNotSentInTime
from tidemark.kafka.group import Group
from tidemark.ledger.actions import Order
from tidemark.model.dead_letters import DeadLetterFilter
from tidemark.model.output import NOTHING_SENT, OutputRecord, Sent
from tidemark.protocol.errors import (
    ChangedSinceCheckpoint,
    MirrorEpochPassed,
    MirrorReadBackDiffers,
    OutputChangedSinceRun,
    OutputMarkUnknown,
    OutputResumeAfterWrong,
    OutputStartUnsaid,
    RewindOfSentBatches,
    RunUnfinished,
    SettingDiffers,
)
from tidemark.protocol.mirror import mirror
from tidemark.runs._output import OutputSnapshot
from tidemark.runs.region import region_of
from tidemark.staging.errors import OutputKeyMissing, RowsToSendDiffer

Hook = Callable[[], Any]


@pytest.fixture
def sink(topic: Callable[..., str]) -> str:
    """The output topic."""
    return topic(partitions=1)


@pytest.fixture
def region(world: World, sink: str) -> World:
    """A region that sends its rows."""
    world.settings["output"] = {"topic": sink}
    return world


def words(region: World) -> list[str]:
    """The rows in the output topic, by their numbers, in order."""
    return [json.loads(one.value or b"")["value"] for one in sent_records(region)]


def sent_records(region: World) -> Any:
    return sent_to(region.kafka, region.settings["output"]["topic"])


def numbers(*ends: int) -> list[str]:
    first, end = ends if len(ends) == 2 else (0, *ends)
    return [f"value {number}" for number in range(first, end)]


def send(region: World) -> None:
    """A mirror by hand, which sends what is left."""
    mirror_region(region.pipeline, region.connections, check=False)


def publish_unsent(region: World, run_id: str, **bounds: Any) -> None:
    """A run publishes, and its mirrors do not come to anything; it stays open."""
    region.open(run_id, **bounds)
    with another_sends(region):
        region.drain(run_id)


def unknown_mark(act: Hook) -> OutputMarkUnknown:
    """Why it is refused: nobody knows what was sent."""
    with pytest.raises(OutputMarkUnknown) as refused:
        act()
    return refused.value


@contextmanager
def hooked(monkeypatch: pytest.MonkeyPatch, name: str, then: Hook) -> Iterator[None]:
    """After the next call of this method of the snapshot something else happens."""
    original, due = getattr(OutputSnapshot, name), [then]

    def call(*given: Any) -> Any:
        found = original(*given)
        if due:
            due.pop()()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(OutputSnapshot, name, call)
        yield


# --- what is sent ---


def test_each_row_is_sent_once_in_the_order_of_the_batches(region: World) -> None:
    """B9: with region, seq and epoch in the headers."""
    region.produce(5)
    region.run("first", max_records=2)
    region.produce(2, start=5)
    region.run("second")
    records = sent_records(region)
    assert words(region) == numbers(7)
    assert [(one.seq, one.epoch) for one in records] == [
        (1, 1), (1, 1), (2, 1), (2, 1), (3, 1), (4, 2), (4, 2)
    ]  # fmt: skip
    assert {one.region for one in records} == {region.region}
    assert {one.key for one in records} == {None}
    assert region.kafka_offsets() == region.ledger_offsets()


@pytest.mark.long
def test_a_batch_without_rows_is_passed(region: World) -> None:
    """A later mirror does not look at it again."""
    produce(region.kafka, region.topic, [b"bad", b"bad"])
    region.settings["dead_letters"] = {"max_ratio": 1}
    region.run()
    assert words(region) == []
    assert [one.seq for one in region.group.sent(region.kafka_offsets())] == [1]


@pytest.mark.long
def test_keys_are_objects_of_the_named_columns(region: World) -> None:
    """One that no row has stops what is sent, until it is corrected with a consent."""
    region.settings["output"]["key"] = ["flight"]
    region.produce(2)
    region.open("first")
    with pytest.raises(OutputKeyMissing) as refused:
        region.drain("first")
    assert refused.value.missing == ("flight",)
    region.settings["output"]["key"] = ["value", "kafka_offset"]
    region.overrides = ("accept_changes",)
    region.run("second")
    assert [json.loads(one.key) for one in sent_records(region)] == [
        {"value": "value 0", "kafka_offset": 0}, {"value": "value 1", "kafka_offset": 1}
    ]  # fmt: skip


# --- crashes, zombies, several writers ---


def test_a_mirror_that_died_anywhere_is_repeated_and_nothing_comes_twice(region: World) -> None:
    """B9, B1: records, offsets and what was sent are one transaction."""
    region.produce(3)
    publish_unsent(region, "run")
    for point, found in (("sending", []), ("sent", []), ("after", numbers(3))):
        with failpoint(f"mirror.{point}"), pytest.raises(FailpointHit):
            send(region)
        assert words(region) == found
    send(region)
    region.close()
    assert words(region) == numbers(3)


def test_what_was_sent_is_read_after_the_writer_has_fenced_the_others(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read before, it would be older than what another writer commits just then."""
    region.produce(3)
    publish_unsent(region, "run")
    writer = Group.writer

    def late(self: Group) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(Group, "writer", writer)
            send(region)
        return writer(self)

    monkeypatch.setattr(Group, "writer", late)
    send(region)
    assert words(region) == numbers(3)


def test_a_writer_that_read_the_ledger_and_slept_is_fenced(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B9: its records were read, and are never committed; it begins again."""
    region.produce(3)
    publish_unsent(region, "run")
    with hooked(monkeypatch, "unsent", lambda: send(region)):
        send(region)
    assert words(region) == numbers(3)


@pytest.mark.long
def test_a_writer_that_is_fenced_while_it_sends_is_told_so(region: World, sink: str) -> None:
    """B9: whichever of its calls meets that first; it begins again."""
    region.produce(1)
    region.run()

    def records(other: Group) -> Iterator[OutputRecord]:
        record = OutputRecord(sink, None, b"{}", ())
        yield record
        with other.writer():
            while True:
                yield record

    with region_of(region.pipeline, region.connections) as one:  # noqa: SIM117
        with (
            region_of(region.pipeline, region.connections) as two,
            pytest.raises(MirrorWriterFenced),
        ):
            with one.group.writer() as writer:
                writer.commit(region.kafka_offsets(), "", records(two.group))
    assert words(region) == numbers(1)


def test_the_epoch_is_read_with_what_is_sent(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A settle that has taken its epoch and not mirrored yet fences nobody at Kafka."""
    region.produce(3)
    publish_unsent(region, "run")
    raised = "UPDATE tidemark.regions SET epoch = epoch + 1"
    with region_of(region.pipeline, region.connections) as one:
        look = one.group.sent

        def passed(offsets: Any) -> Any:
            region.sql(raised)
            return look(offsets)

        monkeypatch.setattr(one.group, "sent", passed)
        with pytest.raises(MirrorEpochPassed):
            mirror(one.ledger, one.group, one.name, 1)
    assert words(region) == []


def test_what_reads_back_otherwise_is_named(region: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rewind changes the ledger only if Kafka tells what it wrote."""
    region.produce(3)
    publish_unsent(region, "run")
    with region_of(region.pipeline, region.connections) as one:
        look, looks = one.group.sent, list[Any]()

        def other(offsets: Any) -> Any:
            looks.append(look(offsets))
            return {NOTHING_SENT}

        monkeypatch.setattr(one.group, "sent", other)
        with pytest.raises(MirrorReadBackDiffers) as failed:
            mirror(one.ledger, one.group, one.name, 1)
    [difference] = failed.value.differences
    assert difference.startswith("sent: 1/")
    assert difference.endswith(f", Kafka {NOTHING_SENT}")
    assert len(looks) == 2


# --- what was sent is not known, or is not this ledger's ---


def forget_offsets(region: World, admin: AdminClient) -> None:
    """Kafka has lost the group's offsets."""
    group = region.pipeline.group
    admin.delete_consumer_groups([group])[group].result(120)


def test_lost_offsets_stop_the_region_until_a_person_says_where_it_stands(
    region: World, admin: AdminClient
) -> None:
    """B9, B16: neither twice nor left out."""
    region.produce(4)
    region.run("first", max_records=2)
    forget_offsets(region, admin)
    region.produce(2, start=4)
    found = unknown_mark(lambda: region.open("second"))
    assert (found.marks, found.held) == ((), 2)
    for wrong in (1, 3, 0):
        region.settings["output"]["resume_after"] = wrong
        with pytest.raises(OutputResumeAfterWrong) as refused:
            region.open("second")
        assert (refused.value.seq, refused.value.fault, refused.value.held) == (wrong, "held", 2)
    region.settings["output"]["resume_after"] = 2
    region.run("second")
    assert words(region) == numbers(6)


@pytest.mark.long
def test_a_ledger_that_was_restored_stops_the_region(region: World) -> None:
    """B9: its batch of that seq is another one."""
    region.produce(2)
    region.run("first")
    region.sql("UPDATE tidemark.batches SET uuid = gen_random_uuid()")
    found = unknown_mark(lambda: region.open("second"))
    assert ([one.seq for one in found.marks], found.held) == ([1], 1)
    assert words(region) == numbers(2)
    region.settings["output"]["resume_after"] = 1
    region.produce(1, start=2)
    region.run("third")
    assert words(region) == numbers(3)


def test_a_restored_ledger_gives_out_no_seq_that_was_sent(region: World) -> None:
    """B9: the batch that was sent is not there at all; the next ones are told from it.

    It was rewound before, so that the mirror's own seq is an older one.
    """
    region.produce(4)
    region.run("first", max_records=2)
    region.reset(to=1, overrides=["accept_resend"])
    region.sql("UPDATE tidemark.regions SET next_seq = 2, sent_seq = 1")
    for table in ("spans", "contributions", "batches"):
        region.sql(f"DELETE FROM tidemark.{table} WHERE seq = 2")
    found = unknown_mark(lambda: region.open("second"))
    assert ([one.seq for one in found.marks], found.held, found.sent_seq) == ([2], 2, 1)
    region.settings["output"]["resume_after"] = 2
    region.run("third")
    assert words(region) == [*numbers(4), *numbers(2, 4)], "a person has accepted that"
    assert [one.seq for one in sent_records(region)][4:] == [3, 3]


@pytest.mark.long
def test_a_restored_ledger_without_offsets_gives_out_no_seq_again(
    region: World, admin: AdminClient
) -> None:
    """B9: the topic's own records name it; its consumers would pass over an older one."""
    region.produce(4)
    region.run("first", max_records=2)
    region.reset(to=1, overrides=["accept_resend"])
    region.sql("UPDATE tidemark.regions SET next_seq = 2, sent_seq = 1")
    for table in ("spans", "contributions", "batches"):
        region.sql(f"DELETE FROM tidemark.{table} WHERE seq = 2")
    forget_offsets(region, admin)
    found = unknown_mark(lambda: region.open("second"))
    assert (found.marks, found.held, found.sent_seq) == ((), 2, 1)
    region.settings["output"]["resume_after"] = 2
    region.run("third")
    assert [one.seq for one in sent_records(region)] == [1, 1, 2, 2, 3, 3]


@pytest.mark.long
def test_only_a_batch_of_this_ledger_is_kept_as_sent(region: World) -> None:
    """B9: a writer of a region that was made anew meanwhile may tell of the one before."""
    region.produce(1)
    region.run("first")
    with region_of(region.pipeline, region.connections) as one:
        assert one.group.output
        one.group.output.confirm(region.region, Sent(9, UUID(int=9)))
        one.group.output.confirm(region.region, NOTHING_SENT)
    assert region.sql("SELECT sent_seq FROM tidemark.regions") == [(1,)]


@pytest.mark.long
def test_a_mark_older_than_what_the_ledger_knows_as_sent_is_refused(region: World) -> None:
    """B9, G86: Kafka has lost offsets that it had acknowledged; nothing comes twice."""
    region.produce(2)
    region.run("first")
    older = region.group.committed_metadata(region.ledger_offsets())
    region.produce(2, start=2)
    region.run("second")
    [mark] = {metadata for _, metadata in older.values()}
    with region.group.writer() as writer:
        writer.commit({at: offset for at, (offset, _) in older.items()}, mark)
    found = unknown_mark(lambda: region.open("third"))
    assert ([one.seq for one in found.marks], found.sent_seq, found.is_too_old) == ([1], 2, True)
    region.settings["output"]["resume_after"] = 2
    region.produce(1, start=4)
    region.run("fourth")
    assert words(region) == numbers(5)


def test_a_mark_older_than_what_an_unanswered_mirror_sent_is_refused(region: World) -> None:
    """B9, G86: the ledger never heard that it was sent, the topic's own records tell."""
    region.produce(2)
    region.run("first")
    older = region.group.committed_metadata(region.ledger_offsets())
    region.produce(2, start=2)
    publish_unsent(region, "second")
    with failpoint("mirror.after"), pytest.raises(FailpointHit):
        send(region)
    [mark] = {metadata for _, metadata in older.values()}
    with region.group.writer() as writer:
        writer.commit({at: offset for at, (offset, _) in older.items()}, mark)
    found = unknown_mark(lambda: region.open("third"))
    assert [one.seq for one in found.marks] == [1]
    assert (found.held, found.sent_seq, found.is_too_old) == (2, 1, True)
    region.settings["output"]["resume_after"] = 2
    region.produce(1, start=4)
    region.run("third")
    assert words(region) == numbers(5)


@pytest.mark.long
def test_a_foreign_commit_on_one_partition_is_put_right(region: World) -> None:
    """Kafka's own tools write no metadata; the other partitions tell what was sent.

    Two that name different batches stop it.
    """
    region.produce(2)
    region.run("first")
    with region.group.writer() as writer:
        writer.commit({region.partition(1): 7}, "")
    region.produce(1, start=2)
    region.run("second")
    assert words(region) == numbers(3)
    with region.group.writer() as writer:
        writer.commit({region.partition(1): 0}, f"{region.region}/2/2/{NOTHING_SENT}")
    found = unknown_mark(lambda: region.open("third"))
    assert [one.seq for one in found.marks] == [0, 2]


def test_a_topic_with_records_of_the_region_is_no_first_run(
    region: World, admin: AdminClient
) -> None:
    """B9: the ledger is new, and has published nothing."""
    region.produce(2)
    region.run("first")
    forget_offsets(region, admin)
    region.sql("DROP SCHEMA tidemark CASCADE")
    region.sql("DROP SCHEMA tidemark_staging CASCADE")
    region.sql("DROP TABLE public.records")
    found = unknown_mark(lambda: region.open("second"))
    assert (found.marks, found.held, found.sent_seq) == ((), 1, None)
    region.settings["output"]["resume_after"] = 1
    region.run("second")
    assert words(region) == [*numbers(2), *numbers(2)], "a person has accepted that"


# --- an older region ---


@pytest.mark.long
def test_an_older_region_begins_where_a_person_says(world: World, sink: str) -> None:
    """B9: with all that it has published, or with what comes."""
    world.produce(2)
    world.run("first")
    world.produce(1, start=2)
    world.settings["output"] = {"topic": sink}
    with pytest.raises(OutputStartUnsaid) as refused:
        world.open("second")
    assert refused.value.sent_seq is None
    world.settings["output"]["start"] = "beginning"
    world.run("third")
    assert words(world) == numbers(3)


@pytest.mark.long
def test_an_older_region_may_begin_at_its_end(world: World, sink: str) -> None:
    world.produce(2)
    world.run("first")
    world.produce(1, start=2)
    world.settings["output"] = {"topic": sink, "start": "end"}
    world.run("second")
    assert words(world) == ["value 2"]


def test_a_start_that_stays_in_the_file_sends_nothing_twice(
    world: World, sink: str, admin: AdminClient
) -> None:
    """Offsets expire and the topic's retention deletes its records: the ledger still knows."""
    world.settings["output"] = {"topic": sink, "start": "beginning"}
    world.produce(2)
    world.run("first")
    forget_offsets(world, admin)
    partition = KafkaPartition(sink, 0)
    end = admin.list_offsets({partition: OffsetSpec.latest()})[partition].result(120).offset
    admin.delete_records([KafkaPartition(sink, 0, end)])[KafkaPartition(sink, 0, end)].result(120)
    with pytest.raises(OutputStartUnsaid) as unsaid:
        world.open("second")
    assert unsaid.value.sent_seq == 1
    world.settings["output"]["resume_after"] = 0
    with pytest.raises(OutputResumeAfterWrong) as wrong:
        world.open("second")
    assert (wrong.value.fault, wrong.value.sent_seq) == ("sent", 1)


def test_a_file_without_the_output_writes_no_mirror(
    region: World, sink: str, topic: Callable[..., str]
) -> None:
    """What was sent would be lost; one with another topic needs a consent."""
    region.produce(1)
    region.run("first")
    region.settings["output"] = {"topic": topic(partitions=1)}
    with pytest.raises(ChangedSinceCheckpoint) as changed:
        region.open("second")
    [change] = changed.value.changes
    assert change == SettingDiffers("output.topic", sink, region.settings["output"]["topic"])
    del region.settings["output"]
    for act in (lambda: send(region), region.reset):
        with pytest.raises(OutputChangedSinceRun) as refused:
            act()
        assert SettingDiffers("output.topic", sink, None) in refused.value.changes


def test_a_file_that_sends_otherwise_writes_no_mirror(region: World) -> None:
    """B9, B16: rows with other keys need a consent, as at an open; and nobody is fenced for it."""
    region.produce(1)
    region.run("first")
    region.produce(1, start=1)
    region.open("second")
    with another_sends(region):
        region.drain("second")
    region.settings["output"]["key"] = ["value"]
    before = dump(region.warehouse)
    for act in (
        lambda: send(region),
        region.reset,
        lambda: region.reset(to=1, overrides=["accept_resend"]),
        lambda: withhold_batch(region.pipeline, region.connections, 2, Order("ada", "a test")),
    ):
        with pytest.raises(OutputChangedSinceRun) as refused:
            act()
        assert refused.value.changes == (SettingDiffers("output.key", "none", "value"),)
    assert dump(region.warehouse) == before
    assert words(region) == numbers(1)


def test_a_file_with_an_output_begins_with_a_run(world: World, sink: str) -> None:
    """G141: what mirrors after its COMMIT is refused before it writes anything."""
    produce(world.kafka, world.topic, [BAD, good("a row")], 0)
    world.run("first")
    world.settings["output"] = {"topic": sink}
    order, before = Order("ada", "a test"), dump(world.warehouse)
    for act in (
        lambda: send(world),
        lambda: replay_dead_letters(
            world.pipeline, world.connections, DeadLetterFilter(), 9, order, world.executor_of
        ),
    ):
        with pytest.raises(OutputChangedSinceRun) as refused:
            act()
        assert SettingDiffers("output.topic", None, sink) in refused.value.changes
    assert dump(world.warehouse) == before


# --- rewinds ---


def test_a_rewind_needs_a_consent_and_sends_again_under_new_seqs(region: World) -> None:
    """B9, B4: what was sent stays."""
    region.produce(4)
    region.run("first", max_records=2)
    for apply in (False, True):
        with pytest.raises(RewindOfSentBatches) as refused:
            region.reset(to=1, apply=apply)
        assert refused.value.batches == 1
    region.reset(to=1, overrides=["accept_resend"])
    assert region.kafka_offsets()[region.partition()] == 2
    assert [one.seq for one in region.group.sent(region.kafka_offsets())] == [2]
    assert words(region) == numbers(4)
    region.run("second")
    assert words(region) == [*numbers(4), *numbers(2, 4)]
    assert [one.seq for one in sent_records(region)][4:] == [3, 3]


def test_a_batch_that_is_rewound_before_it_was_sent_is_never_sent(region: World) -> None:
    """B9: the rewind's mirror sends nothing."""
    region.produce(4)
    publish_unsent(region, "first", max_records=2)
    region.reset(to=1, overrides=["accept_resend"])
    assert words(region) == []
    region.run("second")
    assert words(region) == numbers(4)
    assert [one.seq for one in sent_records(region)] == [1, 1, 3, 3]


def test_a_rewind_looks_whether_what_was_sent_is_known(region: World, admin: AdminClient) -> None:
    region.produce(4)
    region.run("first", max_records=2)
    forget_offsets(region, admin)
    found = unknown_mark(lambda: region.reset(to=1, overrides=["accept_resend"]))
    assert (found.marks, found.held) == ((), 2)
    assert len(region.rows()) == 4


@pytest.mark.long
def test_the_batch_that_was_sent_is_never_pruned(region: World) -> None:
    """Nor one that is not sent yet."""
    region.settings["retain_checkpoints"] = 1
    region.produce(6)
    region.run("first", max_records=2)
    assert region.sql("SELECT seq FROM tidemark.batches") == [(3,)]
    region.produce(2, start=6)
    with region_of(region.pipeline, region.connections) as one:
        region.open("second")
        region.drain("second")
        region.sql("UPDATE tidemark.regions SET sent_seq = 1")
        with one.ledger.deciding(one.name, 2, "prune") as tx:
            tx.prune(1, 100)
            tx.sweep_batches(100)
    assert region.sql("SELECT seq FROM tidemark.batches ORDER BY 1") == [(3,), (4,)]
    region.close("second")
    assert region.sql("SELECT seq FROM tidemark.batches ORDER BY 1") == [(4,)]


# --- bounds ---


@pytest.mark.long
def test_transactions_are_of_whole_batches_up_to_max_rows(region: World) -> None:
    """Each with the checkpoint of its last batch."""
    region.settings["output"]["max_rows"] = 5
    region.produce(8)
    publish_unsent(region, "run", max_records=2)
    with failpoint("mirror.after"), pytest.raises(FailpointHit):
        send(region)
    assert words(region) == numbers(4)
    assert region.kafka_offsets()[region.partition()] == 4
    assert [one.seq for one in region.group.sent(region.kafka_offsets())] == [2]
    send(region)
    assert words(region) == numbers(8)
    assert region.kafka_offsets() == region.ledger_offsets()


@pytest.mark.long
def test_a_batch_that_takes_too_long_is_too_large(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B16: it is never split; nothing of it is seen; a member drains on, the close says it."""
    region.produce(3)
    with too_slow(monkeypatch, 1):
        region.open("run")
        region.drain("run")
        with pytest.raises(OutputNotSentInTime) as late:
            send(region)
    assert late.value.topics.rows == region.settings["output"]["topic"]
    assert words(region) == []
    send(region)
    assert words(region) == numbers(3)


@pytest.mark.long
def test_who_stood_still_while_another_epoch_began_is_fenced_and_not_too_large(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B9: to a writer the end of its own transaction looks as a newer writer does."""
    region.produce(3)
    publish_unsent(region, "run")
    now = [0.0]
    monkeypatch.setattr(writer_module, "Sender", partial(Sender, clock=lambda: now[0]))

    def sleep() -> None:
        now[0] += 3600
        region.reset()

    with meanwhile("mirror.sent", sleep), pytest.raises(MirrorEpochPassed):
        send(region)
    assert words(region) == numbers(3)


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ("DELETE FROM public.records WHERE kafka_offset = 1", 2),
        ("ALTER TABLE public.records RENAME TO other", 0),
    ],
)
def test_rows_that_somebody_changed_are_not_sent(region: World, change: str, left: int) -> None:
    """B9, B5: the count is compared with the ledger's; the run is red and says why."""
    region.produce(3)
    publish_unsent(region, "run")
    region.sql(change)
    with pytest.raises(RunUnfinished) as unfinished:
        region.close()
    table = '"public"."records"'
    why = RowsToSendDiffer(region=region.region, seq=1, target=table, published=3, found=left)
    assert unfinished.value.reasons == (str(why),)
    assert words(region) == []


@pytest.mark.long
def test_planning_waits_while_too_much_is_unsent(
    region: World, caplog: pytest.LogCaptureFixture
) -> None:
    """B9, B18: until somebody sends; who finds another one sending leaves it to that."""
    region.settings["output"]["max_unsent"] = 2
    region.produce(8)
    region.open(max_records=2)
    with another_sends(region):
        member = region.member()
        until(
            lambda: ("tidemark.runs._publisher", (2,)) in [(r.name, r.args) for r in caplog.records]
        )
        assert (len(region.rows()), words(region)) == (4, [])
    member.result(120)
    region.close()
    assert words(region) == numbers(8)


# --- what else a region goes through ---


@pytest.mark.long
def test_a_long_pause_is_remarked(region: World) -> None:
    """Kafka forgets the offsets of groups without members; whatever was done last."""
    region.run("first")
    region.reset()
    region.sql("UPDATE tidemark.runs SET closed_at = closed_at - interval '5 days'")
    region.sql("UPDATE tidemark.resets SET finished_at = finished_at - interval '4 days'")
    opened = region.open("second")
    assert any("offsets.retention.minutes" in one for one in opened.remarks)
    region.drain("second")
    region.close("second")
    assert region.open("third").remarks == ()


@pytest.mark.long
def test_a_region_that_was_dropped_and_made_again_asks(region: World) -> None:
    """The group still names a batch of the one before."""
    region.produce(2)
    region.run("first")
    drop_region(region.connections["tidemark_warehouse"], region.region, Order("test", "a test"))
    region.sql("DROP TABLE public.records")
    region.settings["kafka"] = {"start": "committed"}
    region.produce(1, start=2)
    found = unknown_mark(lambda: region.open("second"))
    assert ([one.seq for one in found.marks], found.held, found.sent_seq) == ([1], 1, None)
    region.settings["output"]["resume_after"] = 1
    region.run("second")
    assert words(region) == numbers(3)


@pytest.mark.long
def test_another_region_that_takes_the_group_over_is_told_what_works(region: World) -> None:
    """The group names a batch of the one before; of the new one none was ever sent."""
    region.produce(2)
    region.run("first")
    drop_region(region.connections["tidemark_warehouse"], region.region, Order("test", "a test"))
    region.sql("DROP TABLE public.records")
    region.settings["kafka"] = {"group": region.pipeline.group, "start": "committed"}
    region.region = "another"
    region.produce(1, start=2)
    found = unknown_mark(lambda: region.open("second"))
    assert (found.held, found.sent_seq, found.was_published) == (None, None, False)
    assert str(found).endswith("output.resume_after: 0")
    region.settings["output"]["resume_after"] = 0
    region.run("second")
    assert words(region) == numbers(3)


def test_sent_is_parsed_from_metadata_alone() -> None:
    mark = Sent.parse(f"flights/3/12/11/{NOTHING_SENT.uuid}")
    assert mark == Sent(11, NOTHING_SENT.uuid)
    for other in ("", "flights/3/12", "flights/3/12/11", "flights/3/12/11/no", "a/b/c/d/e"):
        assert Sent.parse(other) is None
