"""What the ledger's work touches by width: rows are counted, not seconds, so no load matters."""

from collections.abc import Iterator

import pytest
from scripts.ledger_bench import of_width
from scripts.ledger_tables import Steps, slopes, touched
from sqlalchemy import Engine
from tests.support.databases import database_of

from tidemark.ledger.ledger import Ledger
from tidemark.ledger.migrate import migrate
from tidemark.local.stack import LocalStack
from tidemark.postgres.transaction import connect

LINEAR = 1.1
"""The steepest slope on log-log that counts as linear."""
NARROW, WIDE = 100, 1000
MEMBERS = 20


@pytest.fixture(scope="module")
def engine(stack: LocalStack) -> Iterator[Engine]:
    for parameters in database_of(stack.postgres):
        engine = connect(parameters)
        migrate(engine)
        yield engine
        engine.dispose()


@pytest.fixture(scope="module")
def wide(engine: Engine) -> Steps:
    return of_width(Ledger(engine), WIDE, MEMBERS)


def test_no_step_grows_faster_than_the_partitions(engine: Engine, wide: Steps) -> None:
    """S27: from 100 to 1,000 partitions, with the same members."""
    narrow = of_width(Ledger(engine), NARROW, MEMBERS)
    assert {
        n: s for n, s in slopes({NARROW: narrow, WIDE: wide}, touched).items() if s > LINEAR
    } == {}


def test_a_contribution_costs_by_its_own_spans(engine: Engine, wide: Steps) -> None:
    """S27: a span in twenty, whether the batch has 100 partitions or 1,000."""
    alone = of_width(Ledger(engine), NARROW, MEMBERS * NARROW // WIDE)
    step = "contribute, each"
    assert touched(wide[step]) < 1.1 * touched(alone[step])


def test_one_that_waits_looks_at_no_span(wide: Steps) -> None:
    """S27: members that wait ask often, and there may be thousands."""
    assert touched(wide["look of one that waits"]) < 50
