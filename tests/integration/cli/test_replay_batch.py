"""`tidemark replay --batch`: one checkpoint is read again, and its rows are replaced whole."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.cli.conftest import GROWS, Make
from tests.support.commands import (
    Ended,
    answer,
    refusal,
    settle_in,
    tidemark,
    write_pipeline,
)
from tests.support.executor import BAD
from tests.support.failpoint import failpoint
from tests.support.produce import good, produce
from tests.support.topics import create_topic
from tests.support.two_tables import APPENDED, EVENS, NUMBERS, SETTINGS
from tests.support.waiting import until
from tests.support.world import World, dump, staging

from tidemark.admin import replay as operation
from tidemark.errors import Fenced, StagingLost, TargetRefused
from tidemark.ledger.actions import Order
from tidemark.model.errors import TopicNotThatOfTheLedger
from tidemark.protocol.replay import publish_batch_replay

BATCH = ("--batch", "1")
APPLY = (*BATCH, "--apply", "--why", "wider")


def value(number: int) -> bytes:
    return json.dumps({"n": number}).encode()


@pytest.fixture(scope="module")
def make() -> Make:
    """Two checkpoints of one partition: one record of the first was too large then, one is bad."""
    return narrow_then_wide


def narrow_then_wide(world: World) -> World:
    world.sql("CREATE TABLE public.records (n bigint, kafka_topic text, kafka_partition int,"
              " kafka_offset bigint, batch_seq bigint)")  # fmt: skip
    world.settings = {"decode": {"schema": {"n": "smallint"}}}
    values = [value(0), value(70_000), BAD, value(3), value(4), value(80_000)]
    produce(world.kafka, world.topic, values, 0)
    world.run("narrow", max_records=4)
    world.settings = {"decode": {"schema": {"n": "bigint"}}}
    world.overrides = ("accept_changes",)
    world.run("wide")
    world.overrides = ()
    return world


def rows(world: World) -> list[tuple[int, int]]:
    """Seq and number, by offset."""
    return world.sql("SELECT batch_seq, n FROM public.records ORDER BY kafka_offset, batch_seq")


OLD = [(1, 0), (1, 3), (2, 4)]
NEW = [(1, 0), (1, 70_000), (1, 3), (2, 4)]


def dead_letters(world: World) -> list[int]:
    return sorted(one["offset"] for one in answer("dead-letters", world.region))


def test_a_dry_run_tells_what_would_go_and_writes_nothing(region: World) -> None:
    before = dump(region.warehouse)
    found = answer("replay", region.region, *BATCH)
    assert (found["records"], found["rows_before"], found["dead_letters_before"]) == (4, 2, 2)
    assert (found["applied"], found["rows"], found["refused"]) == (False, None, None)
    told = tidemark("replay", region.region, *BATCH).stdout
    assert "read again  4 records in 1 span" in told
    assert told.endswith("nothing was written; to do it, add --apply\n")
    assert dump(region.warehouse) == before


@GROWS
def test_the_rows_of_a_batch_are_replaced_under_its_seq(region: World) -> None:
    """B14: counted before and after; nothing else moves, verify proves it; again is the same."""
    offsets, checkpoints = region.ledger_offsets(), answer("checkpoints", region.region)
    assert rows(region) == OLD
    for _ in range(2):
        found = answer("replay", region.region, *APPLY)
        assert (found["rows"], found["dead_letters"]) == (3, 1)
        assert rows(region) == NEW
        assert dead_letters(region) == [2, 5]
        assert region.ledger_offsets() == region.kafka_offsets() == offsets
        assert staging(region) == []
        assert answer("status", region.region)["dead_letters"] == 2
        verdicts = [one["verdict"] for one in answer("verify", region.region, exits=1)["batches"]]
        assert verdicts == ["equal", "differs"]  # the second was made with the old field
    assert [one["seq"] for one in answer("checkpoints", region.region)] == [
        one["seq"] for one in checkpoints
    ]
    why = "SELECT count(*) FROM tidemark.resets WHERE why = 'replay of batch 1: wider'"
    assert region.sql(why) == [(2,)]
    produce(region.kafka, region.topic, [value(6)], 0)
    tidemark("run", "dags/pipeline.yaml")
    assert rows(region)[:4] == NEW


@pytest.mark.parametrize("how", ["CASCADE", "SET NULL"])
@pytest.mark.parametrize("table", ["notes", "records"])
def test_rows_that_refer_to_replaced_ones_do_not_go_with_them(
    region: World, table: str, how: str
) -> None:
    """B14: of another table, and of later batches."""
    region.sql("CREATE TABLE public.notes AS SELECT n FROM public.records; ALTER TABLE"
               " public.records ADD UNIQUE (n)")  # fmt: skip
    region.sql(f"ALTER TABLE public.{table} ADD of bigint CONSTRAINT is_of"
               f" REFERENCES public.records (n) ON DELETE {how}")  # fmt: skip
    region.sql(f"UPDATE public.{table} SET of = 3 WHERE n = 4")
    all_of = f"SELECT * FROM public.{table} ORDER BY n"
    before = region.sql(all_of)
    told = answer("replay", region.region, *BATCH)["refused"]
    error = answer("replay", region.region, *APPLY, exits=TargetRefused.exit_code)["error"]
    assert error["case"] == "ReplacedRowsReferred"
    assert error["fields"]["acting"] == [[f'"public"."{table}"', "is_of"]]
    assert told == error["text"]
    assert region.sql(all_of) == before
    region.sql(f"ALTER TABLE public.{table} DROP CONSTRAINT is_of")
    assert answer("replay", region.region, *BATCH)["refused"] is None
    answer("replay", region.region, *APPLY)
    assert rows(region) == NEW


def test_a_rewind_past_it_takes_it_back(region: World) -> None:
    """B4: and the next run makes the same rows."""
    answer("replay", region.region, *APPLY)
    assert answer("reset", region.region, "--to", "1", "--apply")["removed"]["rows"] == 1
    assert rows(region) == NEW[:3]
    assert answer("reset", region.region, "--to", "initial", "--apply")["removed"]["rows"] == 3
    assert rows(region) == []
    tidemark("run", "dags/pipeline.yaml", "--max-records", "100")
    assert [n for _, n in rows(region)] == [0, 70_000, 3, 4, 80_000]
    assert answer("verify", region.region)["clean"]


def test_what_a_replay_has_made_rows_of_is_set_aside(region: World) -> None:
    """B14: no record is a row of both."""
    answer("replay", region.region, "--dead-letters", "--apply")
    both = [n for _, n in rows(region)]
    assert both == [0, 70_000, 3, 4, 80_000]
    found = answer("replay", region.region, *APPLY)
    assert (found["rows"], found["dead_letters"]) == (2, 2)
    assert [n for _, n in rows(region)] == both
    assert dead_letters(region) == [2]
    assert answer("verify", region.region)["clean"]
    seq = answer("checkpoints", region.region)[0]["seq"]
    told = refusal("replay", region.region, "--batch", str(seq), exits=16)
    assert (told.case, told.fields["why"]) == ("BatchNotReplayable", "replay")


def test_each_target_is_replaced(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B8: by its own count; a row of one table that is missing stops it."""
    world.settings |= SETTINGS | {
        "targets": APPENDED,
        "transform": "tests.support.two_tables:with_evens",
        "decode": {"schema": {"n": "smallint"}},
    }
    settle_in(world, tmp_path, monkeypatch)
    produce(world.kafka, world.topic, [value(n) for n in (1, 70_000, 2)], 0)
    tidemark("run", "dags/pipeline.yaml")
    for name in (NUMBERS, EVENS):
        world.sql(f"ALTER TABLE public.{name} ALTER COLUMN n TYPE bigint")
    write_pipeline(world, decode={"format": "json", "schema": {"n": "bigint"}})
    tidemark("run", "dags/pipeline.yaml", "--accept-changes")
    assert answer("replay", world.region, *APPLY)["rows"] == 5
    assert tables(world) == ([1, 70_000, 2], [70_000, 2])
    assert answer("verify", world.region)["clean"]
    world.sql("DELETE FROM public.evens WHERE n = 2")
    before = tables(world)
    told = refusal("replay", world.region, *APPLY, exits=16)
    assert (told.case, told.fields["seq"]) == ("RemovalDiffers", 1)
    assert tables(world) == before


def tables(world: World) -> tuple[list[int], ...]:
    return tuple(
        [n for (n,) in world.sql(f"SELECT n FROM public.{name} ORDER BY kafka_offset")]
        for name in (NUMBERS, EVENS)
    )


def purged(region: World) -> None:
    answer("dead-letters", region.region, "--purge", "--older-than", "0h", "--apply")


def upserted(region: World) -> None:
    write_pipeline(region, target={"mode": "upsert", "key": ["n"]})


def sending(region: World) -> None:
    write_pipeline(region, output={"topic": "elsewhere"})


def pruned(region: World) -> None:
    region.sql("UPDATE tidemark.regions SET oldest_seq = 2")


@pytest.mark.parametrize(
    ("change", "case", "fields"),
    [
        (purged, "BatchNotReplayable", {"why": "purged", "purged": 2}),
        (upserted, "ReplayOfUpserts", {"of": "batch"}),
        (sending, "ReplayOfSent", {"output": "rows to topic elsewhere"}),
        (pruned, "BatchNotReplayable", {"why": "pruned"}),
    ],
)
def test_what_can_not_be_replayed_is_refused(
    region: World, change: Callable[[World], None], case: str, fields: dict[str, object]
) -> None:
    """B14: before anybody is fenced, by the dry run too."""
    change(region)
    told = refused(region)
    assert (told.case, told.fields | fields) == (case, told.fields)


@GROWS
def test_what_kafka_no_longer_holds_is_refused(region: World, admin: AdminClient) -> None:
    """B14"""
    where = KafkaPartition(region.topic, 0, 1)
    admin.delete_records([where])[where].result(120)
    told = refused(region)
    assert (told.case, len(told.fields["faults"])) == ("ReplayLacksRecords", 1)


def refused(region: World) -> Ended:
    """How both are refused, the dry run and the replay: alike, and nothing is changed."""
    before = dump(region.warehouse)
    dry, told = (refusal("replay", region.region, *flags, exits=16) for flags in (BATCH, APPLY))
    assert dry == told
    assert dump(region.warehouse) == before
    assert rows(region) == OLD
    return told


@pytest.mark.parametrize("seq", ["3", pytest.param("9", marks=pytest.mark.long)])
def test_a_seq_without_a_checkpoint_is_refused(region: World, seq: str) -> None:
    told = refusal("replay", region.region, "--batch", seq, "--apply", exits=16)
    assert (told.case, told.fields["seq"]) == ("BatchNotReplayable", int(seq))
    assert told.fields["why"] == "unknown"


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--dead-letters", *BATCH),
        pytest.param((*BATCH, "--reason", "x"), marks=pytest.mark.long),
        pytest.param((*BATCH, "--limit", "1"), marks=pytest.mark.long),
    ],
)
def test_it_must_be_clear_what_is_replayed(region: World, flags: tuple[str, ...]) -> None:
    tidemark("replay", region.region, *flags, exits=2)


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(
            "INSERT INTO public.records SELECT * FROM public.records WHERE n = 3",
            marks=pytest.mark.long,
        ),
        "DELETE FROM public.records WHERE n = 3",
    ],
)
def test_other_rows_than_were_published_are_left_alone(region: World, table: str) -> None:
    """B14: the ledger's count and the table's differ; the region is at rest afterwards."""
    region.sql(table)
    before = rows(region), dead_letters(region)
    told = refusal("replay", region.region, *APPLY, exits=16)
    assert (told.case, told.fields["seq"]) == ("RemovalDiffers", 1)
    assert (rows(region), dead_letters(region)) == before
    assert staging(region) == []
    tidemark("replay", region.region, *APPLY, exits=16)  # at rest: for the same reason


def test_a_row_that_the_target_refuses_changes_nothing(region: World) -> None:
    region.sql("ALTER TABLE public.records ADD CHECK (n < 60000)")
    tidemark("replay", region.region, *APPLY, exits=11)
    assert (rows(region), dead_letters(region)) == (OLD, [1, 2, 5])
    assert answer("status", region.region)["unpublished_seq"] is None


@pytest.mark.parametrize("fate", ["sent", pytest.param("lost", marks=pytest.mark.long)])
def test_a_commit_without_an_answer_is_looked_up(region: World, fate: str) -> None:
    with failpoint(f"again.commit.{fate}"):
        assert answer("replay", region.region, *APPLY)["rows"] == 3
    assert rows(region) == NEW


def meddled(monkeypatch: pytest.MonkeyPatch, meddle: Callable[[Any], object]) -> None:
    """Something happens between what is staged and its publish."""

    def then(ledger: Any, target: Any, batch: Any, staged: Any) -> Any:
        meddle(batch)
        return publish_batch_replay(ledger, target, batch, staged)

    monkeypatch.setattr(operation, "publish_batch_replay", then)


@pytest.mark.parametrize("table", ["rows", "dead_letters"])
def test_staging_that_a_crash_emptied_publishes_nothing(
    region: World, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    def empty(batch: Any) -> None:
        region.sql(f'TRUNCATE "tidemark_staging"."{getattr(batch.staging, table)}"')

    meddled(monkeypatch, empty)
    tidemark("replay", region.region, *APPLY, exits=StagingLost.exit_code)
    assert (rows(region), dead_letters(region)) == (OLD, [1, 2, 5])


def test_a_run_that_opens_meanwhile_fences_it(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B2: what was planned died with its epoch."""
    meddled(monkeypatch, lambda _: tidemark("run", "dags/pipeline.yaml", "--take-over"))
    tidemark("replay", region.region, *APPLY, exits=Fenced.exit_code)
    assert (rows(region), dead_letters(region)) == (OLD, [1, 2, 5])


def test_a_purge_meanwhile_stops_it(region: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """B14: of a dead letter that is gone nobody knows whether a replay had made rows of it."""
    meddled(monkeypatch, lambda _: purged(region))
    assert refusal("replay", region.region, *APPLY, exits=16).case == "DeadLettersPurgedMeanwhile"
    assert rows(region) == OLD


def test_fewer_records_than_made_the_batch_replace_nothing(region: World) -> None:
    """B14: as a compacted topic gives them."""
    region.sql("UPDATE tidemark.spans SET records = 5 WHERE seq = 1")
    region.sql("UPDATE tidemark.batches SET records = 5 WHERE seq = 1")
    told = refusal("replay", region.region, *APPLY, exits=16)
    assert (told.case, told.fields["records"], told.fields["found"]) == ("ReplayOfCompacted", 5, 4)
    assert rows(region) == OLD


def test_each_span_is_read_with_as_many_records(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B14: the ledger compares under its lock too."""
    meddled(monkeypatch, lambda _: region.sql("UPDATE tidemark.spans SET records = 5"))
    tidemark("replay", region.region, *APPLY, exits=StagingLost.exit_code)
    assert rows(region) == OLD


def test_records_of_another_topic_replace_nothing(world: World, admin: AdminClient) -> None:
    """G91: the topic is made anew after the look; it has as many records at the same offsets."""
    world.produce(3)
    world.run("first")
    before = world.sql("SELECT kafka_offset, value, batch_seq FROM public.records ORDER BY 1")

    def anew(*_: object) -> None:
        admin.delete_topics([world.topic])[world.topic].result(120)
        until(lambda: world.topic not in admin.list_topics(timeout=120).topics)
        create_topic(admin, NewTopic(world.topic, 2, 1))
        produce(world.kafka, world.topic, [good(f"another {n}") for n in range(3)])
        world.before = lambda *_: None

    world.before = anew
    order = Order("test", "again")
    with pytest.raises(TopicNotThatOfTheLedger):
        operation.replay_batch(world.pipeline, world.connections, 1, order, world.executor_of)
    now = world.sql("SELECT kafka_offset, value, batch_seq FROM public.records ORDER BY 1")
    assert now == before


@pytest.mark.parametrize("fact", ["leader_epoch", "record_end"])
def test_records_of_a_rewritten_log_replace_nothing(region: World, fact: str) -> None:
    """G91: as many at the same offsets, of a leader that had not seen the others."""
    region.sql(f"UPDATE tidemark.spans SET {fact} = {fact} - 1 WHERE seq = 1")
    told = json.loads(tidemark("replay", region.region, *APPLY, "-o", "json", exits=16).stdout)
    assert told["error"]["case"] == "ReplayLacksRecords"
    assert rows(region) == OLD


def test_its_place_dies_with_its_epoch(region: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """B14: without it the staging tables could be retired under its hands."""
    gone = "DELETE FROM tidemark.batches WHERE state = 'planned'"
    meddled(monkeypatch, lambda _: region.sql(gone))
    told = refusal("replay", region.region, *APPLY, exits=Fenced.exit_code)
    assert told == ("BatchReplayEnded", {"region": region.region, "seq": 1})
    assert rows(region) == OLD
