"""`tidemark reset --to`: what a person reads before a rewind, and what it leaves."""

import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient
from tests.integration.cli.conftest import GROWS
from tests.support.commands import (
    answer,
    refusal,
    tidemark,
)
from tests.support.executor import LocalExecutor
from tests.support.waiting import until
from tests.support.world import World, dump

from tidemark.errors import Fenced
from tidemark.model.batch import Batch
from tidemark.model.offsets import Span


def test_a_dry_rewind_says_what_would_go_and_writes_nothing(region: World) -> None:
    before, offsets = dump(region.warehouse), region.kafka_offsets()
    found = answer("reset", region.region, "--to", "1")
    assert (found["applied"], found["head_seq"], found["to_seq"]) == (False, 3, 1)
    back, first = found["removed"], str(region.partition(0))
    ((rows,),) = region.sql("SELECT count(*) FROM public.records WHERE batch_seq > 1")
    ((dead_letters,),) = region.sql("SELECT count(*) FROM tidemark.dead_letters WHERE seq > 1")
    assert (back["batches"], back["rows"], back["dead_letters"]) == (2, rows, dead_letters)
    assert rows
    assert dead_letters
    assert back["offsets"] == {str(at): offset for at, offset in offsets.items()}
    assert found["offsets"][first] == back["margins"][first] < back["offsets"][first]
    told = tidemark("reset", region.region, "--to", "1").stdout
    for line in (
        f"region {region.region}: rewind, dry run",
        "epoch       1 -> 2",
        "head        batch 3 -> 1; 2 batches are removed",
        f"removed     {rows} rows of public.records, {dead_letters} dead letters",
        "Kafka       the group's offsets go back with the ledger's, by",
    ):
        assert line in told
    (words,) = (one.split() for one in told.splitlines() if one.startswith(first))
    start, end = back["offsets"][first], found["offsets"][first]
    assert words[1:] == [str(n) for n in (start, end, start - end, end)]
    assert told.endswith("nothing was written; to do it, add --apply\n")
    assert dump(region.warehouse) == before
    assert region.kafka_offsets() == offsets


def test_a_rewind_removes_and_the_next_run_reads_it_again(region: World) -> None:
    rows, dead_letters = region.rows(), region.dead_letters()
    found = answer("reset", region.region, "--to", "1", "--apply", "--why", "wrong currency")
    assert (found["applied"], found["epoch"], found["to_seq"]) == (True, 2, 1)
    assert region.kafka_offsets() == region.ledger_offsets()
    assert {str(at): n for at, n in region.ledger_offsets().items()} == found["offsets"]
    assert len(region.rows()) == len(rows) - found["removed"]["rows"]
    audit = "SELECT why, from_seq, to_seq, rows_removed, dead_letters_removed, state"
    back = found["removed"]
    assert region.sql(f"{audit} FROM tidemark.resets") == [
        ("wrong currency", 3, 1, back["rows"], back["dead_letters"], "finished")
    ]
    assert answer("status", region.region, "--count")["targets"][0]["drift"] == 0
    tidemark("run", "dags/pipeline.yaml")
    assert (region.rows(), region.dead_letters()) == (rows, dead_letters)
    assert answer("verify", region.region)["clean"]


def test_a_rewind_to_the_initial_state_empties_the_target(region: World) -> None:
    told = tidemark("reset", region.region, "--to", "initial", "--apply").stdout
    assert "head        batch 3 -> 0, the initial state; 3 batches are removed" in told
    assert f"region {region.region}: rewind\n" in told
    assert (region.rows(), region.dead_letters()) == ([], [])
    assert set(region.kafka_offsets().values()) == {0}


@GROWS
def test_a_rewind_to_a_time_goes_to_the_newest_checkpoint_before_it(region: World) -> None:
    made = milliseconds()
    until(lambda: milliseconds() > made, pause=0.001)  # what is there is older, by Kafka's clock
    moment = datetime.now(UTC)
    region.produce(3, start=300)
    tidemark("run", "dags/pipeline.yaml")
    assert answer("reset", region.region, "--to", moment.isoformat())["to_seq"] == 3
    assert answer("reset", region.region, "--to", "2020-01-01")["to_seq"] == 0


def milliseconds() -> int:
    """By the clock that stamps the records."""
    return time.time_ns() // 1_000_000


@pytest.mark.parametrize("place", ["yesterday", "-1", "1.5"])
def test_what_names_no_place_is_wrong_usage(region: World, place: str) -> None:
    told = refusal("reset", region.region, "--to", place, exits=2)
    assert told == ("ResetPlaceMalformed", {"given": place})


def test_a_checkpoint_that_there_is_not_is_refused(region: World) -> None:
    before = dump(region.warehouse)
    told = refusal("reset", region.region, "--to", "9", "--apply", exits=16)
    assert (told.case, told.fields["to_seq"]) == ("RewindPlaceUnknown", 9)
    assert told.fields["head_seq"] == 3
    assert dump(region.warehouse) == before


@GROWS
def test_what_kafka_no_longer_holds_is_refused_with_its_range(
    region: World, admin: AdminClient
) -> None:
    where = KafkaPartition(region.topic, 0, 12)
    admin.delete_records([where])[where].result(120)
    before, offsets = dump(region.warehouse), region.kafka_offsets()
    for flags in ([], ["--apply"]):
        told = refusal("reset", region.region, "--to", "1", *flags, exits=16)
        assert told.case == "RewindNotReadable"
        assert [one.split("@")[0] for one in told.fields["not_held"]] == [str(region.partition(0))]
    assert dump(region.warehouse) == before
    assert region.kafka_offsets() == offsets


@GROWS
def test_a_member_at_work_is_named_and_fenced(region: World) -> None:
    working, ended = threading.Event(), []

    def wait(executor: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
        working.set()
        assert executor.cancelled.wait(300)

    def drain() -> None:
        try:
            region.drain("second")
        except Fenced as error:
            ended.append(str(error))

    region.produce(5, start=400)
    region.open("second")
    region.before = wait
    member = threading.Thread(target=drain)
    member.start()
    assert working.wait(300)
    dry = answer("reset", region.region, "--to", "2")
    assert dry["fences"] == ["member 2 (m1)"]
    assert dry["discarded_seqs"] == [4]
    told = tidemark("reset", region.region, "--to", "2", "--apply").stdout
    assert "fenced      member 2 (m1), holds" in told
    assert "discarded   batch 4" in told
    member.join(300)
    assert "another run or a reset took over" in ended[0]
    assert region.kafka_offsets() == region.ledger_offsets()
    tidemark("run", "dags/pipeline.yaml", "--take-over")
    assert answer("verify", region.region)["clean"]
