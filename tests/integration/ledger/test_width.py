"""What the ledger's work touches by width: rows are counted, not seconds, so no load matters."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.bench.ledger import Steps, of_width, slopes, touched
from sqlalchemy import Engine
from tests.support.databases import database_of
from tests.support.sharing import worker

from tidemark.ledger.ledger import Ledger
from tidemark.ledger.migrate import migrate
from tidemark.postgres.transaction import autocommit, connect
from tidemark_local.postgres import Postgres
from tidemark_local.stack import LocalStack

LINEAR = 1.1
"""The steepest slope on log-log that counts as linear."""
NARROW, WIDE = 100, 1000
MEMBERS = 20


def measured(server: Postgres, partitions: int, members: int) -> Steps:
    """In a database of its own: a table that Postgres scans holds no other region's rows."""
    for parameters in database_of(server):
        engine = connect(parameters)
        migrate(engine)
        leave_statistics(engine)
        found = of_width(Ledger(engine), partitions, members)
        engine.dispose()
    return found


def leave_statistics(engine: Engine) -> None:
    """No autovacuum changes them, and so the plans, in the middle of a measurement."""
    with autocommit(engine) as cursor:
        cursor.execute(
            "SELECT 'ALTER TABLE ' || oid::regclass || ' SET (autovacuum_enabled = off)'"
            " FROM pg_class WHERE relkind = 'r' AND relnamespace = 'tidemark'::regnamespace"
        )
        for (statement,) in cursor.fetchall():
            cursor.execute(statement)


@pytest.fixture(scope="module")
def quiet_server(stack: LocalStack) -> Iterator[Postgres]:
    """Nobody else's: while a transaction of any other database is open, Postgres passes over dead
    index entries that it would else mark, and counts them among those touched."""
    state = stack.folder.root
    quiet = LocalStack(state.with_name(f"{state.name}-quiet{worker()}"), Path.cwd())
    quiet.up(["postgres"])
    yield quiet.postgres
    quiet.down(erase=True)


@pytest.fixture(scope="module")
def wide(quiet_server: Postgres) -> Steps:
    return measured(quiet_server, WIDE, MEMBERS)


@pytest.mark.long
def test_no_step_grows_faster_than_the_partitions(quiet_server: Postgres, wide: Steps) -> None:
    """S27: from 100 to 1,000 partitions, with the same members."""
    narrow = measured(quiet_server, NARROW, MEMBERS)
    steep = slopes({NARROW: narrow, WIDE: wide}, touched)
    assert {name: slope for name, slope in steep.items() if slope > LINEAR} == {}


@pytest.mark.long
def test_a_contribution_costs_by_its_own_spans(quiet_server: Postgres, wide: Steps) -> None:
    """S27: fifty spans, whether the batch has 100 partitions or 1,000."""
    narrow = measured(quiet_server, NARROW, MEMBERS * NARROW // WIDE)
    for step in ("look for own spans", "contribute, each"):
        assert touched(wide[step]) < 2.5 * touched(narrow[step])


def test_a_claim_reads_no_contribution_but_its_own(wide: Steps) -> None:
    """S27: not those of nineteen members for each of fifty spans."""
    assert touched(wide["contribute, each"]) < 10 * WIDE / MEMBERS


def test_one_that_waits_looks_at_no_span(wide: Steps) -> None:
    """S27: members that wait ask often, and there may be thousands."""
    assert touched(wide["look of one that waits"]) < 50
