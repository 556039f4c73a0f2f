"""A rewind removes what was published, from the table that it was published to, or nothing."""

import pytest
from tests.support.desk import Desk

from tidemark.ledger.errors import TableIsAnother
from tidemark.model.batch import ONLY, Removal
from tidemark.model.plan import Bounds
from tidemark.postgres.errors import RemovalUnequal
from tidemark.postgres.transaction import transaction
from tidemark.protocol import settle
from tidemark.protocol.errors import ChangedSinceCheckpoint, RemovalDiffers, TableDiffers
from tidemark.staging.errors import TargetHidesRows, TargetKeepsRows, TargetKeptRowsOut
from tidemark.staging.target import ensure


@pytest.fixture
def worked(desk: Desk) -> Desk:
    """A region with two checkpoints: up to offset 3, with rows alone, and up to 10."""
    desk.work(desk.open("first", Bounds(6)).epoch)
    desk.work(desk.open("second").epoch)
    return desk


def audit(desk: Desk) -> list[tuple[object, ...]]:
    """The newest reset: what it had to remove, what it removed, what it was told to accept."""
    return desk.sql(
        "SELECT rows_expected, rows_removed, overrides, state FROM tidemark.resets"
        f" WHERE {desk.here} ORDER BY reset_id DESC LIMIT 1"
    )


def stays(desk: Desk, rows: list[tuple[int, int]]) -> None:
    """Nothing was removed: these rows, Kafka stands where the ledger does, and runs go on."""
    assert desk.group.offsets == desk.offsets()
    assert desk.sql(f"SELECT 1 FROM tidemark.resets WHERE {desk.here} AND state = 'started'") == []
    desk.open("after", overrides=("accept_changes",))
    assert set(desk.offsets().values()) == {10}
    assert desk.group.offsets == desk.offsets()
    assert desk.rows() == rows


def removal(rows: int, dead_letters: int) -> Removal:
    """So many rows of the only target."""
    return Removal({ONLY: rows}, dead_letters)


def guard(desk: Desk, event: str, body: str) -> None:
    """A row trigger of the target that runs before the event."""
    function = f"public.guard_{desk.region}"
    desk.sql(
        f"CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$"
    )
    desk.sql(
        f"CREATE TRIGGER odd BEFORE {event} ON {desk.target} FOR EACH ROW"
        f" EXECUTE FUNCTION {function}()"
    )


def made_anew(desk: Desk) -> None:
    """The table is renamed and another one bears its name."""
    desk.sql(f"ALTER TABLE {desk.target} RENAME TO old_{desk.region}")
    with transaction(desk.engine, "target") as cursor:
        ensure(cursor, desk.target, desk.columns)


def test_a_trigger_that_keeps_rows_stops_a_rewind(worked: Desk) -> None:
    """B4, B16: else the offsets go back, the rows stay, and everything arrives twice."""
    rows = worked.rows()
    guard(worked, "DELETE", "RETURN NULL;")
    for overrides in ((), ("accept_changes",)):
        with pytest.raises(TargetKeepsRows) as kept:
            worked.rewind(1, overrides)
        assert (kept.value.removed, kept.value.left, kept.value.by) == (0, 8, ("trigger odd",))
    stays(worked, rows)


def test_rows_that_somebody_deleted_stop_a_rewind(worked: Desk) -> None:
    """B4: the numbers are said, and a person may accept them; the ledger keeps that."""
    worked.sql(f"DELETE FROM {worked.target} WHERE batch_seq = 2 AND kafka_offset = 5")
    rows = worked.rows()
    with pytest.raises(RemovalDiffers) as refused:
        worked.rewind(1)
    assert (refused.value.published, refused.value.found) == (removal(8, 2), removal(6, 2))
    stays(worked, rows)
    worked.rewind(1, ("accept_changes",))
    assert audit(worked) == [(8, 6, ["accept_changes"], "finished")]
    assert set(worked.offsets().values()) == {3}


def test_dead_letters_that_somebody_deleted_stop_a_rewind(worked: Desk) -> None:
    worked.sql(f"DELETE FROM tidemark.dead_letters WHERE {worked.here} AND seq = 2")
    rows = worked.rows()
    with pytest.raises(RemovalDiffers) as refused:
        worked.rewind(1)
    assert refused.value.found == removal(8, 0)
    stays(worked, rows)


@pytest.mark.parametrize(
    ("table", "constraint"),
    [
        ("{0.target}", "removed_rows_equal_published"),
        ("tidemark.dead_letters", "removed_dead_letters_equal_published"),
    ],
)
def test_the_ledger_itself_refuses_other_counts(
    worked: Desk, monkeypatch: pytest.MonkeyPatch, table: str, constraint: str
) -> None:
    monkeypatch.setattr(settle, "refuse_other_removal", lambda *_: None)
    seq = "batch_seq = 2" if "target" in table else f"{worked.here} AND seq = 2"
    worked.sql(f"DELETE FROM {table.format(worked)} WHERE {seq}")
    rows = worked.rows()
    with pytest.raises(RemovalUnequal) as refused:
        worked.rewind(1)
    assert refused.value.constraint == constraint
    stays(worked, rows)


def test_an_absent_target_is_not_an_empty_one(worked: Desk) -> None:
    worked.sql(f"ALTER TABLE {worked.target} RENAME TO elsewhere_{worked.region}")
    with pytest.raises(RemovalDiffers) as refused:
        worked.rewind(1)
    assert refused.value.found == removal(0, 2)
    assert set(worked.offsets().values()) == {10}


def test_a_table_made_anew_under_the_same_name_stops_a_rewind(worked: Desk) -> None:
    """B4: the target is known by its oid as well."""
    made_anew(worked)
    for overrides in ((), ("accept_changes",)):
        with pytest.raises(TableIsAnother):
            worked.rewind(1, overrides)
    stays(worked, [])


def test_a_table_made_anew_stops_an_open_until_it_is_accepted(worked: Desk) -> None:
    made_anew(worked)
    with pytest.raises(ChangedSinceCheckpoint) as refused:
        worked.open("next")
    [change] = refused.value.changes
    assert isinstance(change, TableDiffers)
    assert change.found not in (None, change.oid)
    worked.grow(5)
    worked.work(worked.open("told", overrides=("accept_changes",)).epoch)
    assert worked.rows() == [(0, 11), (0, 12), (0, 13)]
    remarks = f"SELECT remarks FROM tidemark.runs WHERE {worked.here} AND run_id = 'told'"
    ((found,),) = worked.sql(remarks)
    assert "accepted: target.table" in found[0]
    worked.open("as usual")


def test_a_table_made_anew_during_a_run_stops_the_publish(worked: Desk) -> None:
    worked.grow(5)
    batch = worked.must_plan(epoch := worked.open("second").epoch)
    contribution = worked.stage(batch, worked.join(epoch))
    made_anew(worked)
    with pytest.raises(TableIsAnother):
        worked.publish(batch, contribution)
    stays(worked, [])


def test_a_region_without_checkpoint_takes_whatever_table_there_is(desk: Desk) -> None:
    made_anew(desk)
    desk.work(desk.open().epoch)
    desk.rewind(0)
    made = f"ALTER TABLE public.old_{desk.region} RENAME TO older_{desk.region}"
    desk.sql(made)
    made_anew(desk)
    desk.work(desk.open("again").epoch)
    assert desk.rows() == desk.expected_rows()


def test_hidden_rows_stop_a_rewind(worked: Desk) -> None:
    """B4: a policy that applies to the role hides rows from its DELETE."""
    rows = worked.rows()
    worked.sql(f"ALTER TABLE {worked.target} ENABLE ROW LEVEL SECURITY")
    worked.sql(f"ALTER TABLE {worked.target} FORCE ROW LEVEL SECURITY")
    for overrides in ((), ("accept_changes",)):
        with pytest.raises(TargetHidesRows):
            worked.rewind(1, overrides)
    worked.sql(f"ALTER TABLE {worked.target} DISABLE ROW LEVEL SECURITY")
    stays(worked, rows)


def test_a_rewind_to_the_initial_state_counts_what_the_ledger_has_forgotten(worked: Desk) -> None:
    for _ in range(3):
        worked.grow(5)
        worked.work(worked.open("more").epoch)
    with worked.ledger.deciding(worked.region, worked.epoch, "prune") as tx:
        tx.prune(1, 100)
        tx.sweep_batches(100)
    forgotten = f"SELECT pruned_rows FROM tidemark.targets WHERE {worked.here}"
    assert worked.sql(forgotten) == [(6,)]
    for _ in range(2):
        rows = len(worked.rows())
        worked.rewind(0)
        assert audit(worked) == [(rows, rows, [], "finished")]
        assert worked.rows() == []
        worked.work(worked.open("again").epoch)
        assert worked.rows() == worked.expected_rows()


def test_a_trigger_that_drops_rows_is_no_lost_staging(desk: Desk) -> None:
    """B5: all rows are staged, so no retry helps; the trigger is named."""
    guard(desk, "INSERT", "IF NEW.kafka_offset = 5 THEN RETURN NULL; END IF; RETURN NEW;")
    batch = desk.must_plan(epoch := desk.open().epoch)
    contribution = desk.stage(batch, desk.join(epoch))
    staged = contribution.rows[ONLY]
    with pytest.raises(TargetKeptRowsOut) as kept:
        desk.publish(batch, contribution)
    found = kept.value
    assert (found.staged, found.moved, found.by) == (staged, staged - 2, ("trigger odd",))
    assert desk.rows() == []
    desk.sql(f"DROP TRIGGER odd ON {desk.target}")
    desk.publish(batch, contribution)
    assert desk.rows() == desk.expected_rows()
