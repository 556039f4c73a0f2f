"""`tidemark dead-letters --purge`: what goes, and that nobody misses it."""

from typing import Any

import psycopg2
import pytest
from tests.support.commands import (
    answer,
    refusal,
    tidemark,
    write_pipeline,
)
from tests.support.world import World, dump

from tidemark.ledger import removing
from tidemark.ledger.actions import Order
from tidemark.ledger.kept_dead_letters import ALL_DEAD_LETTERS
from tidemark.verify import _comparison
from tidemark.verify._rows import purged_of

PURGE = ("--purge", "--older-than", "30d")


@pytest.fixture
def region(region: World) -> World:
    """Three checkpoints with two dead letters; that of the first partition is old."""
    region.sql(
        "UPDATE tidemark.batches SET published_at = '2026-01-31' WHERE seq ="
        " (SELECT seq FROM tidemark.dead_letters WHERE partition = 0)"
    )
    return region


@pytest.mark.long
def test_a_dry_purge_says_what_would_go_and_writes_nothing(region: World) -> None:
    before = dump(region.warehouse)
    found = answer("dead-letters", region.region, *PURGE)
    assert (found["applied"], found["dead_letters"]) == (False, 1)
    assert found["by_reason"] == {"INVALID_JSON": 1}
    told = tidemark("dead-letters", region.region, *PURGE).stdout
    assert "removed           1 INVALID_JSON" in told
    assert told.endswith("nothing was written; to do it, add --apply\n")
    assert dump(region.warehouse) == before
    of_none = ("--reason", "WRONG_TYPE")
    assert "--apply" not in tidemark("dead-letters", region.region, *PURGE, *of_none).stdout


def test_what_is_purged_is_counted_and_nobody_misses_it(region: World) -> None:
    """B14: verify finds as many missing as were purged, and a rewind expects no more."""
    found = answer("dead-letters", region.region, *PURGE, "--apply", "--why", "old")
    assert (found["applied"], found["dead_letters"]) == (True, 1)
    assert region.dead_letters() == [(1, 10)]
    audit = "SELECT region, kind, why, details->'by_reason' FROM tidemark.actions"
    assert region.sql(audit) == [(region.region, "purge", "old", {"INVALID_JSON": 1})]
    assert region.sql("SELECT dead_letters FROM tidemark.region_status") == [(1,)]
    assert answer("verify", region.region)["clean"]
    back = answer("reset", region.region, "--to", "initial", "--apply")["removed"]
    assert (back["rows"], back["dead_letters"]) == (17, 1)
    tidemark("run", "dags/pipeline.yaml")
    assert len(region.dead_letters()) == 2
    assert answer("verify", region.region)["clean"]


def test_a_close_purges_what_is_older_than_the_file_wants(region: World) -> None:
    """S21: with its audit row; verify finds as many missing as were purged."""
    tidemark("run", "dags/pipeline.yaml")
    assert len(region.dead_letters()) == 2
    write_pipeline(region, dead_letters={"retain_days": 30})
    tidemark("run", "dags/pipeline.yaml")
    assert region.dead_letters() == [(1, 10)]
    audit = "SELECT kind, requested_by, why FROM tidemark.actions"
    assert region.sql(audit) == [("purge", "retention", "dead_letters.retain_days: 30")]
    assert answer("verify", region.region)["clean"]


@pytest.mark.long
def test_what_a_person_deletes_besides_is_missed(region: World) -> None:
    answer("dead-letters", region.region, *PURGE, "--apply")
    region.sql("UPDATE tidemark.batches SET dead_letters_purged = 1 WHERE dead_letters_moved > 0")
    found = answer("verify", region.region, exits=1)
    [difference] = [one for batch in found["batches"] for one in batch["differences"]]
    assert "0 are not there, and 1 were purged" in difference["detail"]
    tidemark("reset", region.region, "--to", "initial", "--apply", exits=16)


@pytest.mark.long
def test_more_than_were_moved_are_never_purged(region: World) -> None:
    with pytest.raises(psycopg2.errors.CheckViolation) as refused:
        region.sql("UPDATE tidemark.batches SET dead_letters_purged = dead_letters_moved + 1")
    assert refused.value.diag.constraint_name == "purged_dead_letters_were_moved"


def test_a_rewind_that_is_under_way_keeps_a_purge_out(region: World) -> None:
    region.sql("UPDATE tidemark.batches SET published_at = '2026-01-31'")
    columns = "region, epoch, kind, requested_by, why, resetting, from_seq, to_seq"
    values = "region, epoch, 'rewind', 'x', 'x', gen_random_uuid(), 3, 1"
    region.sql(f"INSERT INTO tidemark.resets ({columns}) SELECT {values} FROM tidemark.regions")
    told = refusal("dead-letters", region.region, *PURGE, "--apply", exits=16)
    assert told.case == "DeadLettersAreRewound"
    assert len(region.dead_letters()) == 2
    tidemark("reset", region.region, "--apply")
    answer("dead-letters", region.region, *PURGE, "--apply")
    assert region.dead_letters() == []


def test_rows_that_the_target_refused_are_left(region: World) -> None:
    region.sql("UPDATE tidemark.dead_letters SET refused_rows = '[]' WHERE partition = 0")
    found = answer("dead-letters", region.region, *PURGE, "--apply")
    assert (found["dead_letters"], found["left"]) == (0, {"INVALID_JSON": 1})
    assert len(region.dead_letters()) == 2
    assert region.sql("SELECT count(*) FROM tidemark.actions") == [(0,)]


@pytest.mark.long
@pytest.mark.parametrize("age", [(), ("--older-than", "30"), ("--older-than", "d")])
def test_a_purge_needs_an_age(region: World, age: Any) -> None:
    assert (
        refusal("dead-letters", region.region, "--purge", *age, exits=2).case == "PurgeWithoutAge"
    )


@pytest.mark.long
def test_a_purge_beside_a_proof_is_no_loss(region: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The letters go between the proof's statements; it looks again."""
    done = list[int]()

    def purging_meanwhile(*values: Any) -> int:
        found = purged_of(*values)
        if not done:
            done.append(found)
            removing.purge(region.ledger().engine, region.region, ALL_DEAD_LETTERS, Order("x", "x"))
        return found

    monkeypatch.setattr(_comparison, "purged_of", purging_meanwhile)
    assert answer("verify", region.region, "--last", "1")["clean"]
    assert region.dead_letters() == []
