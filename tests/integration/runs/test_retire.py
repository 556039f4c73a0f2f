"""Retirement of staging: of any number of batches, and while a run is still at work."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from threading import Event
from typing import Any

import psycopg2
import pyarrow as pa
import pytest
from tests.support.desk import SCHEMA, Desk, row_batch
from tests.support.executor import LocalExecutor
from tests.support.region import rows_of
from tests.support.waiting import until
from tests.support.world import World

from tidemark.errors import Unreachable
from tidemark.ledger.deciding import Deciding
from tidemark.model.batch import ONLY, Batch, Staging
from tidemark.model.offsets import Span
from tidemark.postgres.session import Connection
from tidemark.postgres.transaction import SHORTER_MS, connect
from tidemark.runs import retire as retire_module
from tidemark.runs.retire import retire
from tidemark.spark._writer import WriteSpec, stage
from tidemark.staging import copy
from tidemark_local.postgres import ADMIN
from tidemark_local.stack import LocalStack

SECONDS = 120
BATCHES = 1000


STAGED = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '_rows$' ORDER BY 1"


def staged_during(world: World) -> list[int]:
    """How many batches have staging tables when each job of the world's run begins."""
    found: list[int] = []

    def look(executor: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
        found.append(len(world.sql(STAGED)))

    world.before = look
    return found


@pytest.mark.long
def test_staging_of_more_batches_than_one_transaction_may_lock_is_dropped(
    warehouse: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each table that is dropped is locked to the end of its transaction, with its index."""
    monkeypatch.setattr(retire_module, "TIDYING_SECONDS", 600)
    desk = Desk(connect(warehouse), warehouse)
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


def test_a_long_run_keeps_no_staging_but_that_of_the_batch_it_works_on(world: World) -> None:
    world.produce(12)
    staged = staged_during(world)
    world.open(max_records=2)
    assert world.drain().batches == 6
    assert staged == [1] * 6
    assert world.sql(STAGED) == []
    assert world.close().rows == 12


def test_a_writer_that_stopped_within_a_copy_is_ended_and_its_staging_goes(
    warehouse: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """H10: no time-out of Postgres ends a COPY that waits for its client."""
    desk = Desk(connect(warehouse), warehouse)
    desk.grow(10)
    batch = desk.must_plan(desk.open().epoch)
    desk.stage(batch, 1)
    desk.reset()
    engine = desk.engine
    stopped, goes_on = Event(), Event()

    def stopping(block: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        yield block
        stopped.set()
        goes_on.wait(SECONDS)

    monkeypatch.setattr(copy, "_pieces", stopping)
    spec = WriteSpec(warehouse | {"application_name": "tidemark"}, batch.staging, {ONLY: SCHEMA}, 2)
    block = row_batch(batch.spans[0].span)
    with ThreadPoolExecutor(1) as threads:
        writer = threads.submit(stage, spec, [{ONLY: block}], 0)
        assert stopped.wait(SECONDS)
        assert retire(engine, desk.region, wait_ms=50) == []
        until(lambda: retire(engine, desk.region, wait_ms=50) == [batch.seq])
        goes_on.set()
        with pytest.raises(Unreachable):
            writer.result(SECONDS)


WRITES, READS = "ROW EXCLUSIVE", "ACCESS SHARE"


@pytest.mark.long
def test_of_all_who_hold_staging_only_tasks_that_write_to_what_nobody_needs_are_ended(
    stack: LocalStack, warehouse: dict[str, Any]
) -> None:
    """H10: not a person, not one who reads, not another role, and nobody of a batch at work."""
    named = warehouse | {"application_name": "etl"}  # as a connection's extra may say
    engine = connect(named)
    desk, another = Desk(engine, warehouse), Desk(engine, warehouse)
    first, second, theirs = discarded(desk), discarded(desk), discarded(another)
    at_work = staged(desk)
    task = warehouse | {"application_name": "tidemark"}
    admin = stack.postgres.parameters("postgres", ADMIN) | {"dbname": warehouse["dbname"]}
    stopped = [(task, WRITES, getattr(second, kind)) for kind in ("rows", "dead_letters", "reads")]
    stopped.append((named, WRITES, second.rows))
    spared = [
        (admin | {"application_name": "tidemark"}, WRITES, first.rows),
        (warehouse | {"application_name": "psql"}, WRITES, second.rows),
        (task, READS, second.rows),
        (task, WRITES, theirs.rows),
        (task, WRITES, at_work.rows),
    ]
    with ExitStack() as sessions:
        ended, alive = (
            [sessions.enter_context(holding(*one)) for one in some] for some in (stopped, spared)
        )
        pids = [session.info.backend_pid for session in ended]
        assert retire(engine, desk.region, wait_ms=50) == []
        until(lambda: not desk.sql("SELECT 1 FROM pg_stat_activity WHERE pid = ANY (%s)", [pids]))
        assert [rows_of(session, "SELECT 1") for session in alive] == [[(1,)]] * len(spared)


def test_a_retire_whose_time_is_over_leaves_the_rest_for_the_next(
    warehouse: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S18: else a close takes as long as there are tables."""
    engine = connect(warehouse)
    discarded(desk := Desk(engine, warehouse))
    with monkeypatch.context() as late:
        late.setattr(retire_module, "TIDYING_SECONDS", -1)
        assert retire(engine, desk.region) == []
    assert retire(engine, desk.region) == [1]


def staged(desk: Desk) -> Staging:
    """The staging of a batch that the desk's region works on."""
    desk.grow(10)
    batch = desk.must_plan(desk.open().epoch)
    desk.stage(batch, 1)
    return batch.staging


def discarded(desk: Desk) -> Staging:
    """The same, and nobody needs it any more."""
    staging = staged(desk)
    desk.reset()
    return staging


@contextmanager
def holding(parameters: dict[str, Any], mode: str, table: str) -> Iterator[Connection]:
    """A session that stands within a transaction and holds a staging table."""
    with closing(psycopg2.connect(**parameters)) as session:
        session.cursor().execute(f"LOCK TABLE tidemark_staging.{table} IN {mode} MODE")
        yield session


class TaskTimeout(BaseException):
    """As Airflow's own: no Exception."""


def raising(error: BaseException) -> Callable[..., bool]:
    def prune(*_: object) -> bool:
        raise error

    return prune


@pytest.fixture
def pruning(world: World) -> World:
    """A run is drained, and its close has an older checkpoint to prune."""
    world.settings = {"retain_checkpoints": 1}
    world.produce(2)
    world.run("first")
    world.produce(2, start=2)
    world.open("second")
    world.drain("second")
    return world


def oldest(world: World) -> int:
    """The oldest checkpoint that is retained."""
    [(seq,)] = world.sql("SELECT oldest_seq FROM tidemark.regions")
    return int(seq)


@pytest.mark.parametrize(
    "gives_up", ["lock_timeout", pytest.param("statement_timeout", marks=pytest.mark.long)]
)
def test_a_prune_that_waits_for_a_lock_gives_up_and_the_run_is_green(
    pruning: World, monkeypatch: pytest.MonkeyPatch, gives_up: str
) -> None:
    """S18: somebody reads the whole ledger, or changes it, for an hour."""
    short = dict.fromkeys(("lock_timeout", "statement_timeout"), 60_000) | {gives_up: 300}
    with (
        monkeypatch.context() as hasty,
        closing(psycopg2.connect(**pruning.warehouse)) as other,
        other.cursor() as cursor,
    ):
        hasty.setitem(SHORTER_MS, "prune", short)
        cursor.execute("LOCK TABLE tidemark.contributions IN SHARE MODE")
        assert pruning.close("second").rows == 2
    assert oldest(pruning) == 1
    pruning.run("third")
    assert oldest(pruning) == 2


@pytest.mark.parametrize("error", [TaskTimeout("10 minutes"), RuntimeError("a defect")])
def test_whatever_ends_a_prune_the_run_is_green(
    pruning: World, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    monkeypatch.setattr(Deciding, "prune", raising(error))
    assert pruning.close("second").rows == 2


def test_who_stops_the_process_is_heard(pruning: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Deciding, "prune", raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        pruning.close("second")
