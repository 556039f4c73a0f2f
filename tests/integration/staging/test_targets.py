"""Several targets of one region: published, refused and rewound together, on real Postgres."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine
from tests.support.counter import LINES, ORDERS, Counter, Parts, parts_of, rows_at

from tidemark.ledger.errors import RegionHasOwners, TableIsAnother
from tidemark.model.batch import Moved
from tidemark.model.upsert import Upsert
from tidemark.postgres.errors import StagedRowsGone
from tidemark.postgres.transaction import transaction
from tidemark.protocol.errors import (
    ChangedSinceCheckpoint,
    OwnRowsLost,
    RemovalDiffers,
    TargetsChanged,
)
from tidemark.protocol.publish import Result
from tidemark.staging.errors import (
    ForeignKeyActs,
    ForeignKeyNotDeferrable,
    ForeignKeysInCircle,
    RowRefused,
)

Database = tuple[Engine, dict[str, Any]]


@pytest.fixture
def counter(ledger_database: Database) -> Counter:
    """Two targets, and ten offsets in each of two partitions."""
    counter = Counter(ledger_database)
    counter.grow(10, 0)
    counter.grow(10, 1)
    return counter


def test_a_batch_becomes_visible_in_all_targets(counter: Counter) -> None:
    """B8: each counted by itself; the batch has the sums."""
    outcome = counter.work_on()
    orders = len(counter.visible(ORDERS))
    assert orders > 0
    assert len(counter.visible(LINES)) == 2 * orders
    assert outcome.rows == 3 * orders
    assert counter.counts(ORDERS) == [(orders, orders, 0, 0, 0)]
    assert counter.counts(LINES) == [(2 * orders, 2 * orders, 0, 0, 0)]
    total = f"SELECT rows_contributed, rows_moved FROM tidemark.batches WHERE {counter.here}"
    assert counter.sql(total) == [(3 * orders, 3 * orders)]


def test_parents_come_before_children(counter: Counter) -> None:
    """B8: the foreign key is checked row by row, and the lines are named first."""
    counter.refer()
    assert counter.work_on().result is Result.published


def test_rows_that_refer_to_each_other_wait_for_each_other(counter: Counter) -> None:
    """B8: a circle is fine if its keys can wait, also where they usually do not."""
    counter.refer("DEFERRABLE INITIALLY IMMEDIATE")
    counter.sql(f"ALTER TABLE {counter.table(ORDERS)} ADD first_line bigint")
    counter.sql(f"CREATE UNIQUE INDEX ON {counter.table(LINES)} (id)")
    counter.sql(f"ALTER TABLE {counter.table(ORDERS)} ADD CONSTRAINT orders_of_lines FOREIGN KEY"
                f" (first_line) REFERENCES {counter.table(LINES)} (id) DEFERRABLE")  # fmt: skip
    ensured(counter)
    assert counter.work_on().result is Result.published
    counter.rewind(0)
    assert counter.visible(LINES) == counter.visible(ORDERS) == []


def ensured(counter: Counter) -> None:
    """As at the start of a member."""
    with transaction(counter.engine, "target") as cursor:
        counter.target_writers.ensure_targets(cursor)


def test_a_circle_of_keys_that_can_not_wait_is_refused(counter: Counter) -> None:
    """B8: at the start, with the statement that helps."""
    counter.refer()
    counter.refer(child=ORDERS, parent=LINES)
    with pytest.raises(ForeignKeysInCircle):
        ensured(counter)


@pytest.mark.parametrize("how", ["ON DELETE CASCADE", "ON DELETE SET NULL", "ON UPDATE CASCADE"])
def test_keys_that_change_rows_themselves_are_refused(counter: Counter, how: str) -> None:
    """B8: nobody would count what they do; also if they came after the start."""
    counter.work_on()
    before = counter.whole()
    counter.refer(how)
    counter.grow(10)
    for moving in (lambda: ensured(counter), counter.work_on, lambda: counter.rewind(0)):
        with pytest.raises(ForeignKeyActs):
            moving()
    assert counter.whole() == before


def test_deletions_of_parents_need_keys_that_can_wait(ledger_database: Database) -> None:
    """B8: a batch may delete an order and its lines."""
    counter = Counter(ledger_database, UPSERTS)
    counter.refer()
    with pytest.raises(ForeignKeyNotDeferrable) as caught:
        ensured(counter)
    assert caught.value.constraint == "lines_of_orders"
    counter.sql(f"ALTER TABLE {counter.table(LINES)} ALTER CONSTRAINT lines_of_orders DEFERRABLE")
    ensured(counter)


def test_restrict_does_not_wait(ledger_database: Database) -> None:
    """B8: DEFERRABLE or not."""
    counter = Counter(ledger_database, UPSERTS)
    counter.refer("ON DELETE RESTRICT DEFERRABLE")
    with pytest.raises(ForeignKeyNotDeferrable):
        ensured(counter)


def test_keys_to_what_an_upsert_changes_must_wait(ledger_database: Database) -> None:
    """B8: to the key itself they need not, where no row is deleted."""
    kept = Upsert(("id",))
    counter = Counter(ledger_database, {ORDERS: kept})
    counter.refer()
    ensured(counter)
    other = Counter(ledger_database, {ORDERS: Upsert(("kafka_offset",))})
    other.refer()
    with pytest.raises(ForeignKeyNotDeferrable):
        ensured(other)


@pytest.mark.parametrize("name", [LINES, ORDERS])
def test_if_one_target_refuses_nothing_of_any_is_visible(counter: Counter, name: str) -> None:
    """B8: whichever is moved first."""
    counter.refer()
    counter.work_on()
    before = counter.whole()
    counter.sql(f"ALTER TABLE {counter.table(name)} ADD CONSTRAINT odd CHECK (id <> {ID[name]})")
    counter.grow(10)
    with pytest.raises(RowRefused) as caught:
        counter.work_on()
    assert caught.value.targets == (str(counter.table(name)),)
    assert caught.value.names["constraint"] == "odd"
    assert counter.whole() == before


ID = {LINES: 111, ORDERS: 11}
"""A row of the second batch."""

EQUAL = "moved_rows_equal_contributed"
"""The constraint of a batch, and of what went to each target."""


def test_a_deferred_key_is_checked_before_the_commit(counter: Counter) -> None:
    """B8: a line without its order is the target's refusal, not a COMMIT that fails."""
    counter.refer("DEFERRABLE INITIALLY DEFERRED")
    counter.open("first")
    before = counter.whole()
    lonely = {LINES: rows_at(LINES, [(1, 7, False, 0, 0)]), ORDERS: rows_at(ORDERS, [])}
    with pytest.raises(RowRefused) as caught:
        counter.work_on([lonely])
    assert caught.value.names["constraint"] == "lines_of_orders"
    assert counter.whole() == before


@pytest.mark.parametrize("name", [LINES, ORDERS])
def test_a_target_whose_staging_was_emptied_stops_the_publish(counter: Counter, name: str) -> None:
    """B8: completeness is judged for each target."""
    batch = counter.must_plan(counter.open().epoch)
    contribution, before = counter.stage_parts(batch), counter.whole()
    staging = batch.staging.of_target(name)
    counter.sql(f'TRUNCATE {staging.schema}."{staging.rows}"')
    with pytest.raises(StagedRowsGone) as caught:
        counter.publish(batch, contribution)
    assert caught.value.constraint == "moved_rows_equal_contributed"
    assert counter.whole() == before


@pytest.mark.parametrize("name", [LINES, ORDERS])
def test_a_contribution_counts_its_rows_of_each_target(counter: Counter, name: str) -> None:
    """B8: nothing is claimed of what is half lost."""
    batch = counter.must_plan(counter.open().epoch)
    contribution = counter.stage_parts(batch, spans=[batch.spans[0].span])
    staging = batch.staging.of_target(name)
    counter.sql(f'TRUNCATE {staging.schema}."{staging.rows}"')
    with pytest.raises(OwnRowsLost) as caught:
        counter.publish(batch, contribution)
    assert caught.value.contributed_rows == 21
    claimed = f"SELECT 1 FROM tidemark.contributions WHERE {counter.here}"
    assert counter.sql(claimed) == []


def test_rows_of_one_target_do_not_stand_for_those_of_another(counter: Counter) -> None:
    """B8: as many rows in all, but of other targets: the database itself refuses."""
    batch = counter.must_plan(epoch := counter.open().epoch)
    contribution = counter.stage_parts(batch)
    rows = contribution.rows
    wrong = {LINES: Moved(rows[LINES] - 1), ORDERS: Moved(rows[ORDERS] + 1)}
    with counter.ledger.deciding(counter.region, epoch, "x") as tx:
        tx.claim(batch, contribution)
    here = counter.region, epoch
    for moved in (wrong, {LINES: Moved(rows[LINES])}, {LINES: Moved(sum(rows.values()))}, {}):
        with pytest.raises(StagedRowsGone) as caught, counter.ledger.deciding(*here, "x") as tx:
            tx.publish_batch(batch, moved, contribution.dead_letters)
        assert caught.value.constraint == "moved_rows_equal_contributed"


def test_only_rows_of_winning_attempts_count_in_any_target(counter: Counter) -> None:
    """B8: what a lost attempt staged, whole or half, is in no target."""
    batch = counter.must_plan(counter.open().epoch)
    counter.stage_parts(batch, attempt=1)
    counter.stage_parts(batch, [{LINES: rows_at(LINES, [(1, 7, False, 0, 0)])}], attempt=2)
    counter.publish(batch, counter.stage_parts(batch, attempt=3))
    orders = counter.visible(ORDERS)
    assert [of for _, of in counter.visible(LINES)] == [id_ for (id_,) in orders for _ in (1, 2)]


def test_an_attempt_stages_for_all_targets_or_for_none(counter: Counter) -> None:
    """B8: what it had sent before it failed is in no table."""
    batch = counter.must_plan(counter.open().epoch)

    def failing() -> Iterator[Parts]:
        yield parts_of(batch.spans[0].span)
        raise OSError("as the test wants it")

    with pytest.raises(OSError, match="as the test wants it"):
        counter.stage_parts(batch, failing())
    for name in (LINES, ORDERS):
        staging = batch.staging.of_target(name)
        assert counter.sql(f'SELECT count(*) FROM {staging.schema}."{staging.rows}"') == [(0,)]


def test_a_rewind_takes_back_children_before_parents(counter: Counter) -> None:
    """B4, B8."""
    counter.refer()
    counter.work_on()
    before = counter.whole()
    counter.grow(10)
    counter.work_on()
    counter.rewind(1)
    assert counter.whole() == before
    counter.work_on()
    assert len(counter.visible(ORDERS)) == len(counter.expected_rows())


def test_a_rewind_compares_each_target(counter: Counter) -> None:
    """B8: a row too many in one does not make up for one too few in the other."""
    counter.work_on()
    seq = f"SELECT max(batch_seq) FROM {counter.table(ORDERS)}"
    counter.sql(f"DELETE FROM {counter.table(LINES)} WHERE id = 1")
    counter.sql(f"INSERT INTO {counter.table(ORDERS)} (id, batch_seq) VALUES (9999, ({seq}))")
    before = counter.whole()
    with pytest.raises(RemovalDiffers):
        counter.rewind(0)
    assert counter.whole() == before
    counter.rewind(0, ("accept_changes",))
    assert counter.visible(LINES) == counter.visible(ORDERS) == []


@pytest.mark.parametrize("name", [LINES, ORDERS])
def test_a_target_that_was_made_anew_is_refused(counter: Counter, name: str) -> None:
    """B8: of each target the first publish keeps which table it was."""
    counter.work_on()
    table = counter.table(name)
    counter.sql(f"ALTER TABLE {table} RENAME TO old_{table.table}")
    counter.sql(f"CREATE TABLE {table} (LIKE public.old_{table.table})")
    counter.grow(10)
    with pytest.raises(ChangedSinceCheckpoint):
        counter.open("again")
    with pytest.raises(TableIsAnother):
        counter.rewind(0, ("accept_changes",))


def test_a_table_belongs_to_one_region_and_a_region_keeps_its_targets(counter: Counter) -> None:
    """B8: whichever of its targets it is."""
    shared = {"": str(counter.table(ORDERS))}
    with pytest.raises(RegionHasOwners):
        counter.ledger.create_region("another", group_id="x", targets=shared, cluster_id="c")
    counter.work_on()
    counter.__class__ = OneLess
    with pytest.raises(TargetsChanged):
        counter.open("again")


class OneLess(Counter):
    """The same region, and one of its targets is left out."""

    @property
    def tables(self) -> dict[str, str]:
        return {LINES: str(self.table(LINES))}


UPSERTS = {name: Upsert(("id",), deleted="gone") for name in (LINES, ORDERS)}


def test_keys_of_two_targets_are_told_apart(ledger_database: Database) -> None:
    """B8: both have the keys 1 and 2; each has its own undo and its own deleted keys."""
    counter = Counter(ledger_database, UPSERTS)
    counter.refer("DEFERRABLE")
    states = []
    for orders, lines in (
        ([(1, False)], [(1, 1, False), (2, 1, False)]),
        ([(2, False)], [(1, 2, False), (2, 1, True)]),
        ([(1, True), (2, False)], [(2, 2, False)]),
        ([(2, True)], [(1, None, True), (2, None, True)]),
    ):
        offset = counter.ends[first := next(iter(counter.ends))]
        counter.grow(8)
        at = first.partition, offset
        counter.work_on(
            [
                {
                    ORDERS: rows_at(ORDERS, [(*row, *at) for row in orders]),
                    LINES: rows_at(LINES, [(*row, *at) for row in lines]),
                }
            ]
        )
        states.append((counter.visible(ORDERS), counter.visible(LINES)))
    assert states == [
        ([(1,)], [(1, 1), (2, 1)]),
        ([(1,), (2,)], [(1, 2)]),
        ([(2,)], [(1, 2), (2, 2)]),
        ([], []),
    ]
    for to in (3, 2, 1):
        counter.rewind(to)
        assert (counter.visible(ORDERS), counter.visible(LINES)) == states[to - 1]
    counter.rewind(0)
    assert counter.whole()[:4] == ([], [], [], [])


def test_pruned_rows_are_known_by_target(counter: Counter) -> None:
    """B4, B8: a rewind to the initial state counts what the ledger has forgotten of each."""
    for _ in range(6):
        counter.work_on()
        counter.grow(3)
    with counter.ledger.deciding(counter.region, counter.epoch, "prune") as tx:
        tx.prune(1, 100)
        tx.sweep_batches(100)
    forgotten = "SELECT target, pruned_rows FROM tidemark.targets"
    known = dict(counter.sql(f"{forgotten} WHERE {counter.here}"))
    assert known[LINES] == 2 * known[ORDERS] > 0
    counter.rewind(0)
    assert counter.visible(LINES) == counter.visible(ORDERS) == []
    assert set(dict(counter.sql(f"{forgotten} WHERE {counter.here}")).values()) == {0}
