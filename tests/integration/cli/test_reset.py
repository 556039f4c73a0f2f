"""`tidemark reset --to`: what a person reads before a rewind, and what it leaves."""

import pytest
from tests.support.commands import (
    answer,
    refusal,
    tidemark,
)
from tests.support.world import World, dump


@pytest.mark.long
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


@pytest.mark.parametrize("place", ["yesterday", "-1", "1.5"])
def test_what_names_no_place_is_wrong_usage(region: World, place: str) -> None:
    told = refusal("reset", region.region, "--to", place, exits=2)
    assert told == ("ResetPlaceMalformed", {"given": place})
