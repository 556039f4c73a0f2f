"""The faults' own Postgres, one region a test, and the rows of the tables."""

from collections.abc import Callable, Iterator

import pytest
from tests.conftest import running
from tests.faults.cases import CUT, Case, Fault, cells, name_of
from tests.faults.region import FaultRegion
from tests.faults.report import add_row
from tests.faults.seeded import Seed
from tests.support.databases import database_of
from tests.support.sharing import worker

from tidemark_local.postgres import Postgres
from tidemark_local.stack import LocalStack


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "cell" in metafunc.fixturenames:
        ids = {name_of(*cell): cell for cell in cells()}
        assert ids.keys() >= CUT
        tried = [
            pytest.param(cell, id=name, marks=() if name in CUT else pytest.mark.long)
            for name, cell in ids.items()
        ]
        metafunc.parametrize("cell", tried)


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Callable[[Fault, Case, str], None]:
    """Writes a row of the fault table."""

    def write(fault: Fault, case: Case, result: str) -> None:
        where = f"{case.step}, {case.way}".removesuffix(", ")
        row = (where, f"`{case.failpoint}`", fault.value, result)
        add_row(request.node, "fault table", row, cells().index((fault, case)))

    return write


@pytest.fixture
def found(request: pytest.FixtureRequest, region: FaultRegion) -> Callable[[Seed, str], None]:
    """Writes a row of the table of seeded bugs."""

    def write(seed: Seed, symptom: str) -> None:
        text = symptom.replace(region.topic, "topic").replace(region.region, "name")
        add_row(request.node, "seeded bugs", (seed.bug, request.node.name, text))

    return write


@pytest.fixture(scope="session")
def breakable(stack: LocalStack) -> Iterator[Postgres]:
    """A Postgres that a test may stop: no other test has it at that time."""
    server = Postgres(stack.folder, name=f"breakable{worker()}")
    started = running(stack, server)
    yield server
    if started:
        server.stop()


@pytest.fixture
def partitions() -> int:
    """How many a region has, unless a test says otherwise."""
    return 3


@pytest.fixture
def region(
    stack: LocalStack,
    breakable: Postgres,
    topic: Callable[..., str],
    group: str,
    partitions: int,
) -> Iterator[FaultRegion]:
    """A filled region in a database of its own."""
    running(stack, breakable)
    for warehouse in database_of(breakable):
        name = topic(partitions=partitions)
        region = FaultRegion(stack.kafka.bootstrap, warehouse, name, group, partitions=partitions)
        region.fill()
        yield region
