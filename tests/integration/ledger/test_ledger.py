"""The ledger: locks, constraints named for the fact they guard, time-outs, retirement."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg2
import pytest
from tests.support.desk import Desk
from tests.support.waiting import until

from tidemark.errors import Fenced, TidemarkError, Unreachable
from tidemark.ledger import ledger
from tidemark.ledger.errors import RegionNeverOpened
from tidemark.model.batch import ONLY, Batch, Contribution, SpanRead
from tidemark.model.offsets import Span
from tidemark.model.plan import BatchSize, SizedBy
from tidemark.model.state import NEVER_MIRRORED
from tidemark.postgres.errors import PostgresUnreachable
from tidemark.postgres.session import query
from tidemark.postgres.transaction import TIMEOUTS_MS, connect, transaction
from tidemark.protocol.publish import Result
from tidemark.runs.retire import retire

SECONDS = 120.0


def refusal_of(desk: Desk, statement: str) -> psycopg2.IntegrityError:
    """How Postgres refuses a statement."""
    with pytest.raises(TidemarkError) as refused:
        desk.sql(statement)
    assert isinstance(refused.value.__cause__, psycopg2.IntegrityError)
    return refused.value.__cause__


@pytest.mark.parametrize(
    ("constraint", "statement"),
    [
        ("spans_do_not_overlap",
         "INSERT INTO tidemark.spans (region, seq, partition_id, topic, partition, start_offset,"
         " end_offset, topic_id) SELECT region, {other}, partition_id, topic, partition, 3, 4,"
         " topic_id FROM tidemark.partitions WHERE {here} AND partition = 0"),
        ("span_not_empty", "UPDATE tidemark.spans SET end_offset = start_offset WHERE {here}"),
        ("claimed_span_is_counted", "UPDATE tidemark.spans SET records = NULL WHERE {here}"),
        ("unpublished_batches_are_in_flight",
         "INSERT INTO tidemark.batches (region, seq, epoch, previous_seq, in_flight)"
         " SELECT region, n, 1, n - 1, 1 FROM tidemark.regions, generate_series(98, 99) AS n"
         " WHERE {here}"),
        ("unpublished_batches_are_in_flight",
         "INSERT INTO tidemark.batches (region, seq, epoch, previous_seq, in_flight)"
         " SELECT region, n, 1, n - 1, 2 FROM tidemark.regions, generate_series(98, 100) AS n"
         " WHERE {here}"),
        ("batches_follow_one_another",
         "INSERT INTO tidemark.batches (region, seq, epoch, previous_seq, in_flight)"
         " SELECT region, 99, 1, 0, 1 FROM tidemark.regions WHERE {here}"),
        ("previous_batch_is_older",
         "UPDATE tidemark.batches SET previous_seq = seq WHERE {here}"),
        ("in_flight_is_one_or_two", "UPDATE tidemark.runs SET in_flight = 3 WHERE {here}"),
        ("moved_rows_equal_contributed",
         "UPDATE tidemark.batches SET rows_moved = rows_moved - 1 WHERE {here}"),
        ("moved_rows_equal_contributed",
         "UPDATE tidemark.batches SET rows_deleted = 1 WHERE {here}"),
        ("moved_rows_equal_contributed",
         "UPDATE tidemark.batches SET rows_superseded = 1 WHERE {here}"),
        ("key_changes_once_in_a_batch",
         "INSERT INTO tidemark.undo SELECT region, '', 2, '{{k}}', 1, false, '{{}}'"
         " FROM tidemark.regions, generate_series(1, 2) WHERE {here}"),
        ("before_is_older",
         "INSERT INTO tidemark.undo SELECT region, '', 2, '{{k}}', 2, false, '{{}}'"
         " FROM tidemark.regions WHERE {here}"),
        ("key_is_deleted_once",
         "INSERT INTO tidemark.deleted_keys (region, target, key, seq, topic, partition)"
         " SELECT region, '', '{{k}}', 1, 't', 0 FROM tidemark.regions, generate_series(1, 2)"
         " WHERE {here}"),
        ("moved_dead_letters_equal_contributed",
         "UPDATE tidemark.batches SET dead_letters_moved = 0 WHERE {here}"),
        ("published_batch_is_counted", "UPDATE tidemark.batches SET records = NULL WHERE {here}"),
        ("published_batch_is_claimed", "UPDATE tidemark.batches SET claimed = 0 WHERE {here}"),
        ("next_is_not_before_initial",
         "UPDATE tidemark.partitions SET next_offset = -1 WHERE {here}"),
        ("record_end_is_not_after_next_offset",
         "UPDATE tidemark.partitions SET record_end = next_offset + 1 WHERE {here}"),
        ("initial_offset_is_kept",
         "UPDATE tidemark.partitions SET initial_offset = 1 WHERE {here}"),
        ("a_record_is_a_dead_letter_once",
         "INSERT INTO tidemark.dead_letters SELECT * FROM tidemark.dead_letters WHERE {here}"),
        ("head_was_given_out", "UPDATE tidemark.regions SET head_seq = next_seq WHERE {here}"),
        ("group_belongs_to_one_region",
         "INSERT INTO tidemark.regions (region, group_id, cluster_id)"
         " SELECT 'another', group_id, cluster_id FROM tidemark.regions WHERE {here}"),
        ("target_belongs_to_one_region",
         "INSERT INTO tidemark.targets (region, target, table_name)"
         " SELECT region, 'another', table_name FROM tidemark.targets WHERE {here}"),
        ("target_is_named_once",
         "INSERT INTO tidemark.targets (region, target, table_name)"
         " SELECT region, target, 'another' FROM tidemark.targets WHERE {here}"),
        ("moved_rows_equal_contributed",
         "UPDATE tidemark.batch_targets SET rows_moved = rows_moved + 1 WHERE {here}"),
        ("each_target_is_counted",
         "UPDATE tidemark.contributions SET targets = targets || 'another'::text WHERE {here}"),
        ("partition_is_known_once",
         "INSERT INTO tidemark.partitions (region, topic, partition, topic_id, initial_offset,"
         " next_offset) SELECT region, topic, partition, topic_id, 0, 0"
         " FROM tidemark.partitions WHERE {here}"),
        ("partition_stands_at_span_start", "SELECT tidemark.advance_partitions('{region}', 1)"),
        ("epoch_is_the_expected_one", "SELECT tidemark.take_epoch('{region}', 7, 0)"),
    ],
)  # fmt: skip
def test_the_database_itself_refuses(desk: Desk, constraint: str, statement: str) -> None:
    """H17, B2: against hand edits and mistakes to come: the constraint's name says the fact."""
    desk.work(desk.open().epoch)
    other = "(SELECT 1)"
    text = statement.format(here=desk.here, region=desk.region, other=other)
    if constraint == "spans_do_not_overlap":
        desk.sql(
            "INSERT INTO tidemark.batches (region, seq, epoch, previous_seq, in_flight)"
            f" SELECT region, 90, 1, 89, 1 FROM tidemark.regions WHERE {desk.here}"
        )
        text = text.replace(other, "90")
    assert refusal_of(desk, text).diag.constraint_name == constraint


def test_rewound_spans_do_not_block_what_is_read_again(desk: Desk) -> None:
    """H20: only live spans exclude each other."""
    desk.work(desk.open().epoch)
    desk.sql(f"UPDATE tidemark.spans SET live = false WHERE {desk.here}")
    desk.sql(f"DELETE FROM tidemark.dead_letters WHERE {desk.here}")
    desk.sql(f"UPDATE tidemark.partitions SET next_offset = initial_offset WHERE {desk.here}")
    assert desk.work(desk.open("again").epoch).result is Result.published


def in_thread(action: Callable[[], Any]) -> "Future[Any]":
    """The action runs; its result or its error can be asked for."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(action)
    finally:
        pool.shutdown(wait=False)


def wait_until_blocked(desk: Desk) -> None:
    """Return when some transaction of this database waits for a lock."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    until(lambda: desk.sql(waiting) != [(0,)])


def outcome(desk: Desk, batch: Batch) -> str | None:
    """Of a contribution that never was."""
    reads = tuple(SpanRead(p.span, 1, 1, 1, 0) for p in batch.spans)
    return desk.ledger.outcome(batch, Contribution(1, reads, ()))


DECISIONS: list[tuple[str, Callable[[Desk, int], object]]] = [
    ("plan", lambda desk, epoch: desk.plan(epoch)),
    ("open", lambda desk, _: desk.open("another")),
    ("reset", lambda desk, _: desk.reset()),
    ("close", lambda desk, _: desk.close()),
    ("outcome", lambda desk, epoch: outcome(desk, desk.must_plan(epoch))),
]


@pytest.mark.parametrize(("name", "decision"), DECISIONS, ids=[name for name, _ in DECISIONS])
def test_every_decision_waits_for_the_region_lock(
    desk: Desk, name: str, decision: Callable[[Desk, int], object]
) -> None:
    """H18: one at a time in a region, whoever decides."""
    epoch = desk.open().epoch
    desk.work(epoch)
    with desk.ledger.deciding(desk.region, epoch, "x"):
        decided = in_thread(lambda: decision(desk, epoch))
        wait_until_blocked(desk)
        assert not decided.done()
    decided.exception(SECONDS)
    assert decided.done()


def test_a_publish_that_waited_for_a_reset_is_fenced(desk: Desk) -> None:
    """H18: the epoch is read under the lock, so a delayed publish sees the new one."""
    epoch = desk.open().epoch
    batch = desk.must_plan(epoch)
    contribution = desk.stage(batch, desk.join(epoch))
    with desk.ledger.settling(desk.region, "x") as tx:
        publishing = in_thread(lambda: desk.publish(batch, contribution))
        wait_until_blocked(desk)
        tx.take_epoch(NEVER_MIRRORED)
        tx.discard_unpublished_batches()
    assert isinstance(publishing.exception(SECONDS), Fenced)
    assert desk.rows() == []


def test_a_reset_that_waited_for_a_publish_keeps_it(desk: Desk) -> None:
    epoch = desk.open().epoch
    batch = desk.must_plan(epoch)
    contribution = desk.stage(batch, desk.join(epoch))
    with desk.ledger.deciding(desk.region, epoch, "x") as tx:
        resetting = in_thread(desk.reset)
        wait_until_blocked(desk)
        tx.claim(batch, contribution)
        rows, dead_letters = (
            desk.target_writers.move_rows(tx, batch),
            desk.target_writers.move_dead_letters(tx, batch),
        )
        tx.advance_partitions(batch)
        tx.publish_batch(batch, rows, dead_letters)
        tx.advance_head(batch)
    assert resetting.result(SECONDS).discarded_seqs == ()
    assert desk.rows() == desk.expected_rows() != []
    assert desk.group.offsets == desk.offsets()


def test_the_region_lock_does_not_block_rows_that_refer_to_the_region(desk: Desk) -> None:
    """H18: a plain FOR UPDATE would hold up every member that registers."""
    epoch = desk.open().epoch
    with desk.ledger.deciding(desk.region, epoch, "x"):
        assert in_thread(lambda: desk.join(epoch)).result(SECONDS)


def test_looks_take_no_lock(desk: Desk) -> None:
    epoch = desk.open().epoch
    with desk.ledger.deciding(desk.region, epoch, "x"):
        looks = in_thread(
            lambda: (desk.ledger.epoch(desk.region), desk.ledger.merged_checkpoint(desk.region))
        )
        assert looks.result(SECONDS)[0] == epoch


def test_regions_do_not_wait_for_each_other(desk: Desk) -> None:
    other = Desk(desk.engine, desk.warehouse)
    with desk.ledger.deciding(desk.region, desk.open().epoch, "x"):
        assert in_thread(other.open).result(SECONDS).epoch == 1


def test_a_decision_begins_with_the_lock(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """H18: what is read before the lock may be old when it is held."""
    asked = list[str]()

    def noted(name: str) -> str:
        asked.append(name)
        return query(name)

    monkeypatch.setattr(ledger, "query", noted)
    with desk.ledger.settling(desk.region, "x"):
        assert asked == ["lock_region", "region_state"]
    with desk.ledger.deciding(desk.region, 0, "x"):
        assert asked[2:] == ["lock_region", "region_state"]
    assert "FOR NO KEY UPDATE" in query("lock_region")


def test_session_timeouts_are_part_of_every_transaction(desk: Desk) -> None:
    """A stopped holder of the lock goes away by itself."""
    with transaction(desk.engine, "x") as cursor:
        for name, milliseconds in TIMEOUTS_MS.items():
            cursor.execute("SELECT setting FROM pg_settings WHERE name = %s", (name,))
            assert cursor.fetchone() == (str(milliseconds),)


def test_a_holder_that_stopped_loses_the_lock_and_its_work(desk: Desk) -> None:
    short = TIMEOUTS_MS | {"idle_in_transaction_session_timeout": 200}

    def stop_holding_the_lock() -> None:
        with transaction(desk.engine, "x", short) as cursor:
            cursor.execute(f"UPDATE tidemark.regions SET epoch = 99 WHERE {desk.here}")
            pid = cursor.connection.get_backend_pid()
            alive = f"SELECT 1 FROM pg_stat_activity WHERE pid = {pid}"
            until(lambda: desk.sql(alive) == [])
            cursor.execute("SELECT 1")

    with pytest.raises(Unreachable):
        stop_holding_the_lock()
    assert desk.ledger.epoch(desk.region) == 0


def test_a_connection_that_was_cut_is_not_used_again(desk: Desk) -> None:
    def be_cut() -> None:
        with transaction(desk.engine, "x") as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            [(pid,)] = cursor.fetchall()
            desk.sql("SELECT pg_terminate_backend(%s)", (pid,))
            cursor.execute("SELECT 1")

    with pytest.raises(Unreachable):
        be_cut()
    assert desk.open().epoch == 1


def test_member_numbers_are_never_given_twice(desk: Desk) -> None:
    epoch = desk.open().epoch
    first = desk.join(epoch)
    desk.sql(f"DELETE FROM tidemark.members WHERE {desk.here}")
    assert desk.join(epoch) > first


def test_a_region_that_is_not_there_is_refused_by_name(desk: Desk) -> None:
    with pytest.raises(RegionNeverOpened) as caught:
        desk.ledger.deciding("missing", 1, "x").__enter__()
    assert caught.value.region == "missing"


def test_spans_of_unknown_partitions_are_not_planned(desk: Desk) -> None:
    epoch = desk.open().epoch

    def plan() -> None:
        with desk.ledger.deciding(desk.region, epoch, "x") as tx:
            tx.write_batch((Span("unknown", 0, 0, 1),), BatchSize(1, SizedBy.backlog, None))

    with pytest.raises(LookupError):
        plan()
    assert desk.plan(epoch) is not None


def test_retire_leaves_the_staging_of_other_regions(desk: Desk) -> None:
    """One region's name may be the beginning of another's."""
    other = Desk(desk.engine, desk.warehouse)
    other.region = f"{desk.region}_1"
    other.ledger.create_region(
        other.region, group_id="x" + other.region, targets={ONLY: "t"}, cluster_id="c"
    )
    desk.work(desk.open().epoch)
    desk.sql(f"CREATE TABLE tidemark_staging.{other.region}_1_rows (n int)")
    retire(desk.engine, desk.region)
    left = desk.sql(f"SELECT to_regclass('tidemark_staging.{other.region}_1_rows') IS NOT NULL")
    assert left == [(True,)]


def test_retire_passes_over_a_table_that_is_in_use(desk: Desk) -> None:
    """H10: a stopped executor's COPY holds a lock; nobody waits for it."""
    desk.work(desk.open().epoch)
    with closing(psycopg2.connect(**desk.warehouse)) as holder, holder.cursor() as cursor:
        cursor.execute(f"SELECT * FROM tidemark_staging.{desk.region}_1_rows")
        assert retire(desk.engine, desk.region) == []
    assert retire(desk.engine, desk.region) == [1]


def test_an_unreachable_postgres_is_said_so(desk: Desk) -> None:
    nowhere = connect(desk.warehouse | {"port": 1})
    with pytest.raises(PostgresUnreachable):
        transaction(nowhere, "x").__enter__()
