"""Dead letters in a topic of their own, once each, in the mirror's transaction."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from tests.support.failpoint import failpoint
from tests.support.produce import good, produce
from tests.support.sent import SentRecord, another_sends, sent_to
from tests.support.world import World, dump

from tidemark.admin.dead_letters import purge_dead_letters
from tidemark.admin.mirror import mirror_region
from tidemark.admin.replay import replay_dead_letters
from tidemark.admin.withhold import withhold_batch
from tidemark.check._kafka import output_findings
from tidemark.failpoints import FailpointHit
from tidemark.kafka.errors import OutputRecordInvalid, OutputTopicMissing
from tidemark.ledger.actions import Order
from tidemark.ledger.errors import DeadLettersToSendDiffer
from tidemark.ledger.sending import DETAIL, sent_dead_letters
from tidemark.model.dead_letters import DeadLetterFilter, record_hash
from tidemark.model.output import Topics, Unsent
from tidemark.protocol.errors import (
    ChangedSinceCheckpoint,
    OutputChangedSinceRun,
    OutputStartUnsaid,
    RewindOfSentBatches,
    RunUnfinished,
    SettingDiffers,
)
from tidemark.runs.region import region_of

ORDER = Order("test", "a test")
BAD = [b"bad 0", b"bad 1"]


@pytest.fixture
def bin_(topic: Callable[..., str]) -> str:
    """The topic of dead letters."""
    return topic(partitions=1)


@pytest.fixture
def region(world: World, bin_: str) -> World:
    """A region that sends its dead letters, and no rows."""
    world.settings["dead_letters"] = {"max_ratio": 1, "topic": bin_}
    return world


@pytest.fixture
def both(region: World, topic: Callable[..., str]) -> World:
    """A region that sends rows and dead letters."""
    region.settings["output"] = {"topic": topic(partitions=1)}
    return region


def dead_letters(region: World) -> list[SentRecord]:
    return sent_to(region.kafka, region.settings["dead_letters"]["topic"])


def values(region: World) -> list[bytes | None]:
    return [one.value for one in dead_letters(region)]


def words(region: World) -> list[str]:
    records = sent_to(region.kafka, region.settings["output"]["topic"])
    return [json.loads(one.value or b"")["value"] for one in records]


def send(region: World) -> None:
    mirror_region(region.pipeline, region.connections, check=False)


def publish_unsent(region: World, run_id: str = "run") -> None:
    region.open(run_id)
    with another_sends(region):
        region.drain(run_id)


# --- what is sent ---


def test_a_dead_letter_is_sent_as_it_was_read_with_its_reason(region: World) -> None:
    """B9, B14: without an output too; its own headers can't be taken for ours."""
    own = [("seq", b"99"), ("region", None), ("seq", b"\xff"), ("original.x", b"")]
    producer = Producer({"bootstrap.servers": region.kafka})
    producer.produce(region.topic, b"\xff bad", b"\x00key", 1, timestamp=1234, headers=own)
    assert producer.flush(120) == 0
    produce(region.kafka, region.topic, [good("a"), None])
    region.run()
    empty, full = sorted(dead_letters(region), key=lambda one: one.key or b"")
    assert (full.key, full.value, full.region, full.seq, full.epoch) == (
        b"\x00key", b"\xff bad", region.region, 1, 1
    )  # fmt: skip
    assert (empty.key, empty.value) == (None, None)
    told = dict(full.headers[:9])
    [(reason, detail)] = region.sql(
        "SELECT reason, detail FROM tidemark.dead_letters WHERE value IS NOT NULL"
    )
    assert told == {
        "region": region.region.encode(),
        "seq": b"1",
        "epoch": b"1",
        "topic": region.topic.encode(),
        "partition": b"1",
        "offset": b"0",
        "timestamp": b"1234",
        "reason": reason.encode(),
        "detail": detail.encode(),
    }
    assert list(full.headers[9:]) == [(f"original.{name}", value) for name, value in own]
    assert [one.seq for one in region.group.sent(region.kafka_offsets())] == [1]


@pytest.mark.long
def test_of_a_record_that_the_target_refused_its_place_is_sent(region: World) -> None:
    """B9, B15: the ledger has no bytes of it; the rows are not sent."""
    region.settings["target"] = {"on_refused": "dead_letter"}
    produce(region.kafka, region.topic, [good("a")])
    region.run("first")
    region.sql("ALTER TABLE public.records ADD CONSTRAINT the_guard CHECK (value <> 'b')")
    produce(region.kafka, region.topic, [good("b"), BAD[0]])
    region.run("second")
    refused, bad = dead_letters(region)
    assert (bad.value, refused.key, refused.value) == (BAD[0], None, None)
    told = dict(refused.headers)
    assert (told["offset"], told["timestamp"], told["reason"]) == (b"1", None, b"TARGET_REFUSED")
    assert b"the_guard" in (told["detail"] or b"")
    assert told["original-headers"] == b"unknown"


@pytest.mark.long
def test_a_cut_letter_is_sent_with_the_size_and_the_hash_of_its_record(region: World) -> None:
    """G121: a consumer sees that it has not all of it, and what the whole one is."""
    region.settings["dead_letters"]["max_bytes"] = 5
    produce(region.kafka, region.topic, [b"too long", b"bad"])
    region.run()
    cut, whole = dead_letters(region)
    assert (cut.value, whole.value) == (b"too l", b"bad")
    told = dict(cut.headers)
    assert told["whole-bytes"] == b"8"
    assert told["whole-sha256"] == record_hash(None, b"too long", ()).hex().encode()
    assert "whole-bytes" not in dict(whole.headers)


@pytest.mark.long
def test_rows_and_dead_letters_of_a_batch_are_one_transaction(both: World) -> None:
    """B9: whatever dies, each comes once."""
    produce(both.kafka, both.topic, [good("a"), BAD[0], good("b")])
    publish_unsent(both)
    for point in ("mirror.sending", "mirror.sent"):
        with failpoint(point), pytest.raises(FailpointHit):
            send(both)
        assert (words(both), values(both)) == ([], [])
    with failpoint("mirror.after"), pytest.raises(FailpointHit):
        send(both)
    send(both)
    both.close()
    assert (words(both), values(both)) == (["a", "b"], BAD[:1])


def test_long_details_are_cut() -> None:
    rows: list[list[Any]] = [[("t", 0, 0, None, "WRONG", "é" * 9999, *[None] * 4, [])], []]

    class Cursor:
        def execute(self, *given: Any) -> None:
            pass

        def fetchall(self) -> Any:
            return rows.pop(0)

    batch = Unsent(1, ORDER, 1, 0, dead_letters=1)  # type: ignore[arg-type]
    [one] = sent_dead_letters(Cursor(), "r", batch, "bin")  # type: ignore[arg-type]
    assert dict(one.headers)["detail"] == ("é" * DETAIL).encode()
    assert dict(one.headers)["timestamp"] is None


# --- counts, purges, replays ---


def test_dead_letters_that_somebody_removed_stop_it(both: World) -> None:
    """B9: their number is compared with the ledger's; a person may withhold the batch."""
    produce(both.kafka, both.topic, [good("a"), *BAD])
    publish_unsent(both)
    both.sql('DELETE FROM tidemark.dead_letters WHERE "offset" = 2')
    with pytest.raises(RunUnfinished) as unfinished:
        both.close()
    why = DeadLettersToSendDiffer(region=both.region, seq=1, published=2, found=1)
    assert unfinished.value.reasons == (str(why),)
    assert (words(both), values(both)) == ([], [])
    withhold_batch(both.pipeline, both.connections, 1, ORDER)
    assert (words(both), values(both)) == ([], [])


def test_a_purge_leaves_what_is_not_sent(region: World) -> None:
    """B14: and takes it once it was."""
    produce(region.kafka, region.topic, BAD)
    publish_unsent(region)
    given = region.pipeline, region.connections, DeadLetterFilter(), timedelta(0)
    looked, purged = (purge_dead_letters(*given, order) for order in (None, ORDER))
    assert (looked.dead_letters, looked.unsent) == (0, 2)
    assert (purged.dead_letters, purged.unsent) == (0, 2)
    send(region)
    assert purge_dead_letters(*given, ORDER).dead_letters == 2
    assert values(region) == BAD


@pytest.mark.long
def test_what_was_purged_before_there_was_a_topic_is_not_missed(
    region: World, world: World
) -> None:
    topic = world.settings["dead_letters"].pop("topic")
    produce(world.kafka, world.topic, BAD)
    world.run("first")
    meant = DeadLetterFilter(), timedelta(0), ORDER
    world.sql("UPDATE tidemark.dead_letters SET refused_rows = '[]' WHERE \"offset\" = 1")
    assert purge_dead_letters(world.pipeline, world.connections, *meant).dead_letters == 1
    world.settings["dead_letters"]["topic"] = topic
    with pytest.raises(OutputStartUnsaid) as unsaid:
        world.open("second")
    assert unsaid.value.topics == Topics(dead_letters=topic)
    world.settings["output"] = {"start": "beginning"}
    world.run("third")
    assert values(world) == BAD[1:]


@pytest.mark.long
def test_a_replay_sends_no_dead_letter_again(both: World) -> None:
    """B14: one that fails again is the one that was sent; one that is a row now is sent as one."""
    both.settings["decode"] = {"schema": {"value": "string", "n": "smallint"}}
    wide = json.dumps({"value": "wide", "n": 70_000}).encode()
    produce(both.kafka, both.topic, [good("first"), wide, BAD[0]])
    both.run("first")
    both.sql("ALTER TABLE public.records ALTER n TYPE bigint")
    both.settings["decode"]["schema"]["n"] = "bigint"
    both.overrides = ("accept_changes",)
    both.run("second")
    given = both.pipeline, both.connections, DeadLetterFilter(), 9, ORDER, both.executor_of
    report = replay_dead_letters(*given)
    assert (report.rows, len(values(both))) == (1, 2)
    assert words(both) == ["first", "wide"]
    assert values(both) == [wide, BAD[0]]


# --- what else a region goes through ---


@pytest.mark.long
def test_a_rewind_knows_what_was_sent(region: World) -> None:
    """B9, B4: also where only dead letters are sent."""
    produce(region.kafka, region.topic, BAD)
    region.run("first", max_records=1)
    sent_to_ = Topics(dead_letters=region.settings["dead_letters"]["topic"])
    with pytest.raises(RewindOfSentBatches) as rewound:
        region.reset(to=1)
    assert (rewound.value.batches, rewound.value.topics) == (1, sent_to_)
    region.reset(to=1, overrides=["accept_resend"])
    region.run("second")
    assert values(region) == [*BAD, BAD[1]]
    assert [one.seq for one in dead_letters(region)] == [1, 2, 3]


@pytest.mark.long
def test_a_topic_that_comes_later_needs_a_consent_and_begins_with_what_follows(
    both: World,
) -> None:
    """B9: rows of batches that were sent before it are not asked for again, nor dead letters."""
    topic = both.settings["dead_letters"].pop("topic")
    produce(both.kafka, both.topic, [BAD[0]])
    both.run("first")
    both.settings["dead_letters"]["topic"] = topic
    change = SettingDiffers("dead_letters.topic", None, topic)
    with pytest.raises(ChangedSinceCheckpoint) as changed:
        both.open("second")
    assert changed.value.changes == (change,)
    with pytest.raises(OutputChangedSinceRun) as refused:
        send(both)
    assert refused.value.changes == (change,)
    produce(both.kafka, both.topic, [BAD[1]])
    both.overrides = ("accept_changes",)
    both.run("third")
    assert values(both) == [BAD[1]]
    output = both.settings.pop("output")
    both.overrides = ()
    with pytest.raises(ChangedSinceCheckpoint) as changed:
        both.open("fourth")
    assert SettingDiffers("output.topic", output["topic"], None) in changed.value.changes


@pytest.mark.long
def test_what_is_not_sent_is_not_pruned(region: World) -> None:
    region.settings["retain_checkpoints"] = 1
    region.produce(4)
    region.open(max_records=1)
    with another_sends(region):
        region.drain()
    seqs = "SELECT seq FROM tidemark.batches ORDER BY 1"
    with region_of(region.pipeline, region.connections) as one:  # noqa: SIM117
        with one.ledger.deciding(one.name, 1, "prune") as tx:
            tx.prune(1, 100)
            tx.sweep_batches(100)
    assert len(region.sql(seqs)) == 4
    region.close()
    assert region.sql(seqs) == [(4,)]


@pytest.mark.long
def test_the_topic_must_be_there_and_check_looks_at_it(both: World) -> None:
    """B16: before anything is written."""
    connection_of = both.connections.__getitem__
    found = output_findings(both.pipeline, connection_of)
    assert [one.state for one in found] == ["ok", "warned", "ok"]
    both.settings["dead_letters"]["topic"] = "nowhere"
    found = output_findings(both.pipeline, connection_of)
    assert [one.state for one in found] == ["ok", "failed", "ok"]
    before = dump(both.warehouse)
    for topic in ("nowhere", "anywhere"):
        with pytest.raises(OutputTopicMissing) as missing:
            both.open()
        assert missing.value.topic == topic
        both.settings["output"]["topic"] = "anywhere"
    assert dump(both.warehouse) == before


@pytest.mark.long
def test_a_compacted_topic_takes_no_record_without_a_key(region: World, bin_: str) -> None:
    """B9, B16: which is no outage; once the topic is another one, it is sent."""
    admin = AdminClient({"bootstrap.servers": region.kafka})

    def policy(value: str) -> None:
        entry = ConfigEntry("cleanup.policy", value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, bin_, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(120)

    policy("compact")
    produce(region.kafka, region.topic, BAD)
    region.open()
    with pytest.raises(OutputRecordInvalid) as refused:
        region.drain()
    assert refused.value.topics == Topics(dead_letters=bin_)
    assert values(region) == []
    policy("delete")
    region.run("second")
    assert values(region) == BAD


def test_where_it_goes_is_told_in_words() -> None:
    assert str(Topics("a", "b")) == "rows to topic a, dead letters to topic b"
    assert Topics("a", "b").named == "topics a and b"
    assert Topics(dead_letters="b").named == "topic b"
