"""`tidemark replay --dead-letters`: each dead letter becomes rows once, or stays."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from tests.integration.cli.conftest import GROWS, Make
from tests.support.commands import (
    answer,
    refusal,
    settle_in,
    tidemark,
    write_pipeline,
)
from tests.support.executor import BAD
from tests.support.produce import produce
from tests.support.two_tables import APPENDED, EVENS, NUMBERS, SETTINGS
from tests.support.world import World, dump, staging

from tidemark.admin import replay as replay_module
from tidemark.errors import Fenced, StagingLost, Superseded
from tidemark.ledger.ledger import Ledger
from tidemark.protocol.errors import DeadLettersUnread
from tidemark.protocol.replay import plan_replay, publish_replay
from tidemark.runs.member import job_of

REPLAY = ("--dead-letters",)
APPLY = ("--dead-letters", "--apply", "--why", "wider")
LARGE = {1: 70_000, 3: 80_000}
"""Numbers that a smallint can't hold, by offset."""


def value(number: int) -> bytes:
    return json.dumps({"n": number}).encode()


@pytest.fixture(scope="module")
def make() -> Make:
    """Three checkpoints; two records were too large for the field of then, and one is no JSON.

    The field is wider now, and a run has accepted that.
    """
    return narrow_then_wide


def narrow_then_wide(world: World) -> World:
    world.sql("CREATE TABLE public.records (n bigint, kafka_topic text, kafka_partition int,"
              " kafka_offset bigint, batch_seq bigint)")  # fmt: skip
    world.settings = {"decode": {"schema": {"n": "smallint"}}}
    values = [value(LARGE.get(offset, offset)) for offset in range(5)]
    produce(world.kafka, world.topic, [*values, BAD], 0)
    produce(world.kafka, world.topic, [value(offset) for offset in range(4)], 1)
    world.run("narrow", max_records=6)
    world.settings = {"decode": {"schema": {"n": "bigint"}}}
    world.overrides = ("accept_changes",)
    world.run("wide")
    world.overrides = ()
    return world


def widened(world: World) -> None:
    """The field is wider now, and a run has accepted that."""
    write_pipeline(world, decode={"format": "json", "schema": {"n": "bigint"}})
    tidemark("run", "dags/pipeline.yaml", "--accept-changes")


def numbers(world: World) -> list[int]:
    return [n for (n,) in world.sql("SELECT n FROM public.records WHERE kafka_partition = 0"
                                    " ORDER BY kafka_offset")]  # fmt: skip


def counts(world: World) -> list[Any]:
    return world.sql(
        "SELECT records, rows_moved, letters_replayed, letters_kept FROM tidemark.batches"
        " WHERE kind = 'replay' AND state = 'published' ORDER BY seq"
    )


def test_a_dry_replay_decodes_and_writes_nothing(region: World) -> None:
    before, offsets = dump(region.warehouse), region.kafka_offsets()
    found = answer("replay", region.region, *REPLAY)
    assert (found["applied"], found["chosen"], found["replayed"]) == (False, 3, 2)
    assert found["kept"] == {"INVALID_JSON": 1}
    told = tidemark("replay", region.region, *REPLAY).stdout
    assert "decodable   2" in told
    assert told.endswith("nothing was written; to do it, add --apply\n")
    assert dump(region.warehouse) == before
    assert region.kafka_offsets() == offsets


def test_what_can_be_decoded_now_becomes_rows_once(region: World) -> None:
    """B14: the others stay; the merged checkpoint does not move; verify proves both batches."""
    offsets = region.ledger_offsets()
    ((head,),) = region.sql("SELECT head_seq FROM tidemark.regions")
    found = answer("replay", region.region, *APPLY)
    assert (found["replayed"], found["kept"], found["rows"]) == (2, {"INVALID_JSON": 1}, 2)
    assert found["head_seq"] == head + 1
    assert region.sql("SELECT state FROM tidemark.members WHERE name = 'replay'") == [("done",)]
    assert numbers(region) == [0, 70_000, 2, 80_000, 4]
    assert counts(region) == [(3, 2, 2, 1)]
    assert region.ledger_offsets() == region.kafka_offsets() == offsets
    assert [one["offset"] for one in answer("dead-letters", region.region)] == [5]
    assert region.sql("SELECT dead_letters FROM tidemark.region_status") == [(1,)]
    assert region.sql("SELECT why FROM tidemark.resets WHERE kind = 'replay'") == [
        ("replay of dead letters: wider",)
    ]
    assert staging(region) == []
    assert answer("verify", region.region)["clean"]
    again = answer("replay", region.region, *APPLY)
    assert (again["replayed"], again["rows"]) == (0, 0)
    assert numbers(region) == [0, 70_000, 2, 80_000, 4]
    assert answer("verify", region.region)["clean"]


def test_only_those_that_are_meant_are_replayed(region: World) -> None:
    assert answer("replay", region.region, *APPLY, "--reason", "INVALID_JSON")["replayed"] == 0
    assert answer("replay", region.region, *APPLY, "--limit", "1")["replayed"] == 1
    found = answer("replay", region.region, *APPLY, "--reason", "OUT_OF_RANGE")
    assert (found["chosen"], found["replayed"]) == (1, 1)
    assert numbers(region) == [0, 70_000, 2, 80_000, 4]
    told = tidemark("replay", region.region, *APPLY, "--reason", "TOO_DEEP").stdout
    assert "chosen      0 dead letters" in told


@pytest.mark.long
def test_what_has_failed_again_holds_up_nobody(region: World) -> None:
    """Else the rest would never be reached by a limit."""
    region.sql('UPDATE tidemark.dead_letters SET value = %s WHERE "offset" = 1', (BAD,))
    one = (*APPLY, "--limit", "1")
    assert [answer("replay", region.region, *one)["replayed"] for _ in range(3)] == [0, 1, 0]
    assert numbers(region) == [0, 2, 80_000, 4]
    assert [answer("replay", region.region, *REPLAY, "--limit", "1")["replayed"]] == [0]


@pytest.mark.long
@pytest.mark.parametrize(
    "older",
    [
        "refused_rows = '[]'",
        "headers = NULL",
        "value = 'bad'",
    ],
)
def test_of_two_records_at_one_offset_each_is_tried(region: World, older: str) -> None:
    """The topic was made anew: no letter of the older history blocks one of the younger."""
    region.sql("INSERT INTO tidemark.partitions (partition_id, region, topic, partition, topic_id,"
               " initial_offset, next_offset, seq, ended_epoch) OVERRIDING SYSTEM VALUE"
               " SELECT -1, region, topic, partition, 'older', 0, 9, 1, 1 FROM tidemark.partitions"
               " WHERE partition = 0")  # fmt: skip
    region.sql('CREATE TABLE copied AS SELECT * FROM tidemark.dead_letters WHERE "offset" = 1')
    region.sql(f"UPDATE copied SET partition_id = -1, {older}")
    region.sql("INSERT INTO tidemark.dead_letters TABLE copied")
    told = [answer("replay", region.region, *REPLAY)["replayed"]]
    done = [answer("replay", region.region, *APPLY)["replayed"]]
    if older.startswith("value"):  # it comes first, once
        told += [answer("replay", region.region, *REPLAY)["replayed"]]
        done += [answer("replay", region.region, *APPLY)["replayed"]]
    assert told == done
    assert numbers(region) == [0, 70_000, 2, 80_000, 4]


def test_a_rewind_takes_rows_and_marks_back(region: World) -> None:
    """B14: and a second replay brings them again."""
    ((head,),) = region.sql("SELECT head_seq FROM tidemark.regions")
    answer("replay", region.region, *APPLY)
    told = tidemark("reset", region.region, "--to", str(head)).stdout
    assert "taken back  2 replays: dead letters again" in told
    back = answer("reset", region.region, "--to", str(head), "--apply")["removed"]
    assert (back["rows"], back["dead_letters"], back["replays"]) == (2, 0, 2)
    assert numbers(region) == [0, 2, 4]
    assert region.sql("SELECT dead_letters FROM tidemark.region_status") == [(3,)]
    assert answer("replay", region.region, *APPLY)["replayed"] == 2
    answer("reset", region.region, "--to", "initial", "--apply")
    tidemark("run", "dags/pipeline.yaml")
    assert numbers(region) == [0, 70_000, 2, 80_000, 4]
    assert answer("verify", region.region)["clean"]


@pytest.mark.long
def test_a_rewind_to_a_replay_takes_back_only_the_ones_after_it(region: World) -> None:
    """B14."""
    first = answer("replay", region.region, *APPLY, "--limit", "1")["head_seq"]
    answer("replay", region.region, *APPLY)
    assert numbers(region) == [0, 70_000, 2, 80_000, 4]
    back = answer("reset", region.region, "--to", str(first), "--apply")["removed"]
    assert (back["rows"], back["replays"]) == (1, 1)
    assert numbers(region) == [0, 70_000, 2, 4]


def test_a_replay_reaches_every_target(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B8, B14: each by its own count; rewound and proven together."""
    world.settings |= SETTINGS | {
        "targets": APPENDED,
        "transform": "tests.support.two_tables:with_evens",
        "decode": {"schema": {"n": "smallint"}},
    }
    settle_in(world, tmp_path, monkeypatch)
    produce(world.kafka, world.topic, [value(n) for n in (1, 70_000, 3, 70_001, 2)], 0)
    tidemark("run", "dags/pipeline.yaml")
    for name in (NUMBERS, EVENS):
        world.sql(f"ALTER TABLE public.{name} ALTER COLUMN n TYPE bigint")
    widened(world)
    ((head,),) = world.sql("SELECT head_seq FROM tidemark.regions")
    before = tables(world)
    assert before == ([1, 3, 2], [2])
    assert answer("replay", world.region, *APPLY)["rows"] == 3
    assert tables(world) == ([1, 70_000, 3, 70_001, 2], [70_000, 2])
    assert answer("verify", world.region)["wrong"] == 0
    world.sql("DELETE FROM public.evens WHERE n = 70000")
    assert answer("verify", world.region, exits=1)["wrong"] > 0
    tidemark("reset", world.region, "--to", str(head), "--apply", exits=16)
    world.sql("INSERT INTO public.evens SELECT * FROM public.numbers WHERE n = 70000")
    tidemark("reset", world.region, "--to", str(head), "--apply")
    assert tables(world) == before
    assert answer("replay", world.region, *REPLAY)["replayed"] == 2


def tables(world: World) -> tuple[list[int], ...]:
    """The numbers of both tables, by offset."""
    return tuple(
        [n for (n,) in world.sql(f"SELECT n FROM public.{name} ORDER BY kafka_offset")]
        for name in (NUMBERS, EVENS)
    )


def test_a_rewind_that_finds_other_marks_is_refused(region: World) -> None:
    ((head,),) = region.sql("SELECT head_seq FROM tidemark.regions")
    answer("replay", region.region, *APPLY)
    region.sql('UPDATE tidemark.dead_letters SET replayed_seq = NULL WHERE "offset" = 1')
    before = dump(region.warehouse)
    told = refusal("reset", region.region, "--to", str(head), "--apply", exits=16)
    assert told.case == "RemovalDiffers"
    marked = "2 rows and 0 dead letters and {} replays of dead letters"
    assert told.fields["published"] == marked.format(2)
    assert told.fields["found"] == marked.format(1)
    assert dump(region.warehouse) == before


@pytest.mark.long
def test_other_settings_than_the_checkpoints_are_refused(region: World) -> None:
    write_pipeline(region, decode={"format": "json", "schema": {"n": "integer"}})
    before = dump(region.warehouse)
    assert refusal("replay", region.region, *APPLY, exits=16).case == "ChangedBeforeReplay"
    assert dump(region.warehouse) == before


@pytest.mark.long
def test_another_target_than_the_checkpoints_is_refused_before_a_table_is_made(
    region: World,
) -> None:
    """B4: the dry run says so too; a rewind refuses it likewise."""
    write_pipeline(region, target={"table": "public.elsewhere"})
    before = dump(region.warehouse)
    found = answer("replay", region.region, *REPLAY)
    assert "keeps its target" in found["refused"]
    shown = tidemark("replay", region.region, *REPLAY).stdout
    assert shown.endswith("nothing was written, and --apply would be refused\n")
    for command in (("replay", region.region, *APPLY), ("reset", region.region, "--to", "initial")):
        told = refusal(*command, exits=16)
        assert (told.case, told.fields["given"]) == ("TargetsChanged", {"": "public.elsewhere"})
    assert dump(region.warehouse) == before


def test_a_dry_replay_tells_what_would_refuse_it(region: World) -> None:
    assert answer("replay", region.region, *REPLAY)["refused"] is None
    region.sql("ALTER TABLE public.records ALTER COLUMN n TYPE smallint")
    assert "does not fit" in answer("replay", region.region, *REPLAY)["refused"]
    region.open("another")
    assert "is not at rest" in answer("replay", region.region, *REPLAY)["refused"]


@pytest.mark.long
def test_an_upserted_target_is_refused(region: World) -> None:
    write_pipeline(region, target={"mode": "upsert", "key": ["n"]})
    assert refusal("replay", region.region, *REPLAY, exits=16).case == "ReplayOfUpserts"


@pytest.mark.long
def test_a_record_that_the_target_refuses_stops_the_replay(region: World) -> None:
    region.sql("ALTER TABLE public.records ADD CHECK (n < 75000)")
    assert refusal("replay", region.region, *APPLY, exits=11).case == "ReplayedRowRefused"
    assert region.sql("SELECT state FROM tidemark.members WHERE name = 'replay'") == [("failed",)]
    assert numbers(region) == [0, 2, 4]
    assert len(answer("dead-letters", region.region)) == 3
    assert counts(region) == []
    assert answer("replay", region.region, *APPLY, "--limit", "1")["replayed"] == 1


@pytest.mark.long
def test_a_record_whose_rows_the_target_refused_is_left_out(region: World) -> None:
    region.sql("UPDATE tidemark.dead_letters SET refused_rows = '[]' WHERE \"offset\" = 1")
    found = answer("replay", region.region, *APPLY)
    assert (found["replayed"], found["not_kept_raw"]) == (1, 1)


@pytest.mark.long
def test_a_record_whose_headers_are_unknown_is_left_out(region: World) -> None:
    """Without them it is another record."""
    region.sql('UPDATE tidemark.dead_letters SET headers = NULL WHERE "offset" = 1')
    assert answer("replay", region.region, *REPLAY)["chosen"] == 2
    found = answer("replay", region.region, *APPLY)
    assert (found["replayed"], found["not_kept_raw"]) == (1, 1)


@pytest.mark.long
def test_headers_key_and_time_come_back_as_they_were(region: World) -> None:
    """What the dead letter keeps is the record, also for `metadata`."""
    from tidemark.ledger.kept_dead_letters import headers_of_dead_letter
    from tidemark.model.batch import DeadLetter
    from tidemark.staging.copy import _headers_json

    headers = (("a", b"1"), ("a", None), ("ключ", b"\0"), ("", b""))
    dead_letter = DeadLetter("t", 0, 1, None, None, None, headers, "r", "d")
    written = json.loads(_headers_json(dead_letter, str) or "")
    assert tuple(headers_of_dead_letter(written)) == headers


@pytest.fixture
def cut(region: World) -> World:
    """The dead letter at offset 1 keeps the beginning of its record alone."""
    region.sql(
        'UPDATE tidemark.dead_letters SET whole_bytes = 10, value = %s WHERE "offset" = 1',
        (b'{"n": 7',),
    )
    return region


def test_a_cut_letter_is_read_from_kafka_again(cut: World) -> None:
    """G122: what is published is the whole record; verify compares it as far as it is kept."""
    assert answer("replay", cut.region, *REPLAY)["replayed"] == 2
    assert answer("replay", cut.region, *APPLY)["replayed"] == 2
    assert numbers(cut) == [0, 70_000, 2, 80_000, 4]
    assert answer("verify", cut.region)["clean"]
    cut.sql("UPDATE tidemark.dead_letters SET value = 'x' WHERE whole_bytes IS NOT NULL")
    assert not answer("verify", cut.region, exits=1)["clean"]


@GROWS
def test_a_cut_letter_whose_record_kafka_does_not_have_is_refused_by_name(
    cut: World, admin: AdminClient
) -> None:
    """G122: another record at its place, and none; others are replayed without it."""
    cut.sql("UPDATE tidemark.dead_letters SET hash = sha256('') WHERE \"offset\" = 1")
    for given in (REPLAY, APPLY):
        told = refusal("replay", cut.region, *given, exits=16)
        assert (told.case, told.fields["span"]) == (
            "CutDeadLetterNotWhole",
            f"{cut.topic}[0]@[1, 2)",
        )
        assert "its SHA-256 differs" in told.fields["found"]
    assert numbers(cut) == [0, 2, 4]
    where = TopicPartition(cut.topic, 0, 3)
    admin.delete_records([where])[where].result(120)
    gone = refusal("replay", cut.region, *APPLY, exits=16)
    assert gone.case == "CutDeadLetterNotWhole"
    assert "Kafka does not hold it" in gone.fields["found"]
    assert counts(cut) == []


def test_staging_that_a_crash_emptied_publishes_nothing(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows or dead letters that are gone: neither is taken for the other."""
    for table in ("dead_letters", "rows"):

        def emptied(ledger: Ledger, target: Any, batch: Any, *rest: Any, name: str = table) -> Any:
            staged = getattr(batch.staging, name)
            region.sql(f'TRUNCATE "tidemark_staging"."{staged}"')
            return publish_replay(ledger, target, batch, *rest)

        monkeypatch.setattr(replay_module, "publish_replay", emptied)
        with suppress(StagingLost):
            tidemark("replay", region.region, *APPLY, exits=1)
        assert numbers(region) == [0, 2, 4]
        assert len(answer("dead-letters", region.region)) == 3


def test_a_dead_letter_that_the_job_does_not_see_stops_the_replay(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B14, G147: row security keeps one from the executors' login, and says nothing."""

    def hidden(*values: Any) -> Any:
        planned = plan_replay(*values)
        region.sql('CREATE POLICY most ON tidemark.dead_letters USING ("offset" <> 1)')
        region.sql("ALTER TABLE tidemark.dead_letters ENABLE ROW LEVEL SECURITY")
        region.sql("ALTER TABLE tidemark.dead_letters FORCE ROW LEVEL SECURITY")
        return planned

    def seen(*values: Any) -> Any:
        region.sql("ALTER TABLE tidemark.dead_letters DISABLE ROW LEVEL SECURITY")
        with pytest.raises(DeadLettersUnread) as refused:
            publish_replay(*values)
        assert (refused.value.chosen, refused.value.read) == (3, 2)
        raise refused.value

    monkeypatch.setattr(replay_module, "plan_replay", hidden)
    monkeypatch.setattr(replay_module, "publish_replay", seen)
    tidemark("replay", region.region, *APPLY, exits=1)
    assert numbers(region) == [0, 2, 4]
    assert len(answer("dead-letters", region.region)) == 3


def test_a_dead_letter_that_another_hand_has_marked_stops_the_replay(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B14: a mark is set by compare-and-set, never over another one."""

    def marked(*values: Any) -> Any:
        region.sql('UPDATE tidemark.dead_letters SET replayed_seq = 99 WHERE "offset" = 1')
        return publish_replay(*values)

    monkeypatch.setattr(replay_module, "publish_replay", marked)
    tidemark("replay", region.region, *APPLY, exits=1)
    assert numbers(region) == [0, 2, 4]
    assert region.sql("SELECT count(*) FROM tidemark.dead_letters WHERE replayed_seq = 99") == [
        (1,)
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    "at_work",
    [
        "UPDATE tidemark.runs SET state = 'open' WHERE epoch = 2",
        "INSERT INTO tidemark.resets (region, epoch, kind, requested_by, why, resetting, from_seq,"
        " to_seq) SELECT region, epoch, 'rewind', 'a', 'b', gen_random_uuid(), 2, 1"
        " FROM tidemark.regions",
        "INSERT INTO tidemark.batches (region, seq, epoch, previous_seq, in_flight)"
        " SELECT region, 9, epoch, head_seq, 1 FROM tidemark.regions",
    ],
    ids=["run", "rewind", "batch"],
)
def test_a_replay_ends_nothing_that_is_at_work(region: World, at_work: str) -> None:
    """B2: a run, a reset or a rewind, and what was left by one that died."""
    region.sql(at_work)
    before = dump(region.warehouse)
    assert refusal("replay", region.region, *APPLY, exits=16).case == "RegionNotAtRest"
    assert dump(region.warehouse) == before


def test_a_run_that_opens_while_the_job_starts_supersedes_a_replay(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B2: it fences nobody whom it has not looked at."""

    def overtaken(*values: Any) -> Any:
        tidemark("run", "dags/pipeline.yaml", "--take-over")
        return job_of(*values)

    monkeypatch.setattr(replay_module, "job_of", overtaken)
    epoch = "SELECT epoch FROM tidemark.regions"
    tidemark("replay", region.region, *APPLY, exits=Superseded.exit_code)
    assert region.sql(epoch) == [(3,)]  # of the run
    assert len(answer("dead-letters", region.region)) == 3


def test_a_run_that_opens_meanwhile_fences_a_replay(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B2: the replay holds an epoch that has passed."""

    def overtaken(*values: Any) -> Any:
        tidemark("run", "dags/pipeline.yaml", "--take-over")
        return publish_replay(*values)

    monkeypatch.setattr(replay_module, "publish_replay", overtaken)
    tidemark("replay", region.region, *APPLY, exits=Fenced.exit_code)
    assert numbers(region) == [0, 2, 4]
    assert len(answer("dead-letters", region.region)) == 3


@pytest.mark.long
@GROWS
def test_what_is_replayed_is_purged_only_once_no_rewind_reaches_it(region: World) -> None:
    answer("replay", region.region, *APPLY)
    purge = ("dead-letters", region.region, "--purge", "--older-than", "0h", "--apply")
    found = answer(*purge)
    assert (found["by_reason"], found["left"]) == ({"INVALID_JSON": 1}, {"OUT_OF_RANGE": 2})
    assert answer("verify", region.region)["clean"]
    region.sql("UPDATE tidemark.regions SET oldest_seq = head_seq")
    assert answer(*purge)["dead_letters"] == 0
    decode = {"format": "json", "schema": {"n": "bigint"}}
    write_pipeline(region, retain_checkpoints=1, decode=decode)
    produce(region.kafka, region.topic, [value(6)], 0)
    tidemark("run", "dags/pipeline.yaml")
    assert answer(*purge)["dead_letters"] == 2
    assert region.sql("SELECT dead_letters FROM tidemark.region_status") == [(0,)]
    assert answer("verify", region.region)["clean"]


@pytest.mark.long
def test_a_doctored_row_of_a_replay_is_named(region: World) -> None:
    """B5: verify finds a row that was changed, one that is gone, and a changed dead letter."""
    answer("replay", region.region, *APPLY)
    region.sql("UPDATE public.records SET n = 1 WHERE n = 70000")
    region.sql("DELETE FROM public.records WHERE n = 80000")
    found = answer("verify", region.region, exits=1)
    kinds = {one["kind"] for batch in found["batches"] for one in batch["differences"]}
    assert kinds == {"miscounted", "altered", "lost"}
