"""The faults' own stack, one region a test, and the table that is printed at the end."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import PROJECT
from tests.faults.region import FaultRegion
from tests.faults.seeded import Seed
from tests.faults.table import Case, Fault, cells, is_in_cut
from tests.support.databases import database_of

from tidemark.local.postgres import Postgres
from tidemark.local.stack import LocalStack

RESULTS = pytest.StashKey[list[tuple[str, str, str, str]]]()
FOUND = pytest.StashKey[list[tuple[str, str, str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fault-table", action="store_true", help="try every cell and print them")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RESULTS] = []
    config.stash[FOUND] = []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "cell" in metafunc.fixturenames:
        whole = metafunc.config.getoption("--fault-table", default=False)
        chosen = [cell for cell in cells() if whole or is_in_cut(*cell)]
        ids = [f"{fault.name}-{case}" for fault, case in chosen]
        metafunc.parametrize("cell", chosen, ids=ids)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    faults = ("step", "failpoint", "fault", "result")
    _write_table(terminalreporter, "fault table", faults, config.stash[RESULTS])
    bugs = ("seeded bug", "found by", "symptom")
    _write_table(terminalreporter, "seeded bugs", bugs, config.stash[FOUND])


def _write_table(reporter: Any, title: str, head: tuple[str, ...], rows: list[Any]) -> None:
    if rows:
        reporter.section(title)
        for row in (head, ("---",) * len(head), *rows):
            reporter.write_line(f"| {' | '.join(row)} |")


@pytest.fixture
def record(pytestconfig: pytest.Config) -> Callable[[Fault, Case, str], None]:
    """Writes a row of the table."""

    def write(fault: Fault, case: Case, result: str) -> None:
        row = (case.step, f"`{case.failpoint}`", fault.value, result)
        pytestconfig.stash[RESULTS].append(row)

    return write


@pytest.fixture
def found(request: pytest.FixtureRequest, region: FaultRegion) -> Callable[[Seed, str], None]:
    """Writes a row of the table of seeded bugs."""

    def write(seed: Seed, symptom: str) -> None:
        text = symptom.replace(region.topic, "topic").replace(region.region, "name")
        request.config.stash[FOUND].append((seed.bug, request.node.name, text))

    return write


@pytest.fixture(scope="session")
def breakable(stack: LocalStack) -> Iterator[Postgres]:
    """A Postgres that a test may stop: the session's other tests have another one."""
    server = Postgres(stack.folder, name="breakable")
    started = server.start()
    yield server
    if started:
        server.stop()


@pytest.fixture
def region(
    kafka: str, breakable: Postgres, topic: Callable[..., str], group: str
) -> Iterator[FaultRegion]:
    """A filled region in a database of its own."""
    breakable.start()
    for warehouse in database_of(breakable):
        region = FaultRegion(kafka, warehouse, topic(partitions=3), group)
        region.fill()
        yield region


@pytest.fixture(scope="session")
def library() -> Path:
    """The folder that holds the package under test."""
    return Path(os.environ.get("TIDEMARK_LIBRARY", PROJECT / "plugins"))
