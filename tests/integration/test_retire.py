"""Retirement of staging: of any number of batches, and while a run is still at work."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import psycopg2
from tests.support.desk import Desk
from tests.support.executor import LocalExecutor
from tests.support.world import World

from tidemark.ledger.migrate import migrate
from tidemark.member.retire import retire
from tidemark.model.batch import Batch
from tidemark.model.offsets import Span
from tidemark.postgres.transaction import connect

BATCHES = 1000
STAGED = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '_rows$' ORDER BY 1"


def test_staging_of_more_batches_than_one_transaction_may_lock_is_dropped(
    warehouse: dict[str, Any],
) -> None:
    """Each table that is dropped is locked to the end of its transaction, with its index."""
    migrate(engine := connect(warehouse))
    desk = Desk(engine, warehouse)
    desk.sql(f"UPDATE tidemark.regions SET next_seq = {BATCHES + 1} WHERE {desk.here}")
    for kind in ("rows", "dead_letters", "reads"):
        desk.sql(
            "DO $$ BEGIN FOR seq IN 1.." + str(BATCHES) + " LOOP EXECUTE format("
            f"'CREATE TABLE tidemark_staging.{desk.region}_%s_{kind}"
            " (n int PRIMARY KEY, t text)', seq); IF seq % 200 = 0 THEN COMMIT; END IF;"
            " END LOOP; END $$"
        )
    assert retire(desk.engine, desk.region) == [*range(1, BATCHES + 1)]
    assert retire(desk.engine, desk.region) == []


def staged_during(world: World) -> list[int]:
    """How many batches have staging tables when each job of the world's run begins."""
    found: list[int] = []

    def look(executor: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
        found.append(len(world.sql(STAGED)))

    world.before = look
    return found


def test_a_long_run_keeps_no_staging_but_that_of_the_batch_it_works_on(world: World) -> None:
    world.produce(12)
    staged = staged_during(world)
    world.open(max_records=2)
    assert world.drain().batches == 6
    assert staged == [1] * 6
    assert world.sql(STAGED) == []
    assert world.close().rows == 12


def test_staging_that_a_stopped_executor_holds_delays_no_publish_and_goes_later(
    world: World,
) -> None:
    """H10: a COPY that goes on and on holds its lock."""
    world.produce(8)
    world.open(max_records=2)
    with closing(psycopg2.connect(**world.warehouse)) as zombie, zombie.cursor() as cursor:

        def hold(executor: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
            world.before = lambda *_: None
            executor._before = world.before
            cursor.execute(
                f"LOCK TABLE {batch.staging.schema}.{batch.staging.rows} IN ROW EXCLUSIVE MODE"
            )

        world.before = hold
        assert world.drain().batches == 4
        assert len(world.sql(STAGED)) == 1
    assert len(retire(connect(world.warehouse), world.region)) == 1
    assert world.close().rows == 8
