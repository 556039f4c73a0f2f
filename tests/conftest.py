"""Fixtures that give a test real parts of its own: topics, groups, databases."""

import json
import os
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any
from zlib import crc32

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import HealthCheck, settings
from tests.faults import report
from tests.support import sharing
from tests.support.databases import database_of, put_in_memory, take_from_memory
from tests.support.flights_table import emptied
from tests.support.quick import QuickSession
from tests.support.sharing import worker
from tests.support.topics import create_topic

from tidemark.postgres.session import Connection, Cursor
from tidemark.spark.java_options import OPTIONS, QUICK, with_archive
from tidemark_local._airflow import Airflow
from tidemark_local.postgres import Postgres
from tidemark_local.stack import KAFKA, SPARK, LocalStack

PROJECT = Path(__file__).resolve().parent.parent
OLD_POSTGRES = Path("/usr/lib/postgresql/15/bin")
"""Where Debian and Ubuntu install PostgreSQL 15."""
OLD_NAME = "postgres15"

_STOPS = pytest.StashKey[bool]()
_AIRFLOW = pytest.StashKey[Airflow]()

Parameters = dict[str, Any]
"""What psycopg2.connect needs."""

EXAMPLES = {"test": 20, "rest": 200, "all": 200}
"""Of a property, by tier; where one costs a second, a test takes a tenth of these."""


def _local() -> LocalStack:
    state = os.environ.get("TIDEMARK_TEST_STATE", PROJECT / ".tidemark" / "test")
    return LocalStack(Path(state), PROJECT)


def _old_postgres(local: LocalStack) -> Postgres:
    return Postgres(local.folder, name=OLD_NAME, programs=OLD_POSTGRES)


def _homes(local: LocalStack) -> list[Path]:
    """Where the servers of Postgres keep their files."""
    return [local.folder.root / name for name in (local.postgres.name, OLD_NAME)]


def _share(text: str) -> tuple[int, int]:
    """The number of a share, from 1, and how many there are."""
    number, _, shares = text.partition("/")
    if not 1 <= int(number) <= int(shares):
        raise ValueError(text)
    return int(number), int(shares)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out what needs a server")
    parser.addoption(
        "--tier",
        choices=("test", "rest", "all"),
        default="test",
        help="test leaves out what is marked long, rest has nothing else, all has both",
    )
    parser.addoption("--share", type=_share, default=(1, 1), help="2/4 runs the second fourth")
    parser.addoption("--shuffle", help="a seed: random order, random distribution")


def pytest_configure(config: pytest.Config) -> None:
    # The JVMs of tests live for seconds: they would end before a second compiler had paid.
    os.environ.setdefault(OPTIONS, with_archive(QUICK))
    settings.register_profile(
        "tidemark",
        max_examples=EXAMPLES[config.getoption("--tier")],
        derandomize=not config.getoption("--shuffle"),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],  # a busy machine is no counterexample
    )
    settings.load_profile("tidemark")
    quick = [QuickSession()] if config.getoption("--quick") else []
    for plugin in (sharing, report, *quick):
        config.pluginmanager.register(plugin)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of the other tier, and of other shares."""
    tier, (number, shares) = config.getoption("--tier"), config.getoption("--share")

    def is_chosen(test: pytest.Item) -> bool:
        return tier in tiers(test) and crc32(test.nodeid.encode()) % shares == number - 1

    config.hook.pytest_deselected(items=[one for one in items if not is_chosen(one)])
    items[:] = [one for one in items if is_chosen(one)]


def tiers(test: pytest.Item) -> set[str]:
    """Those that run it; of a property, the second one tries more examples."""
    if test.get_closest_marker("long"):
        return {"rest", "all"}
    is_property = getattr(getattr(test, "obj", None), "is_hypothesis_test", False)
    return {"test", "all", "rest"} if is_property else {"test", "all"}


def running(local: LocalStack, server: Postgres) -> bool:
    """The server runs; whether this call started it. Others of this session may ask at once."""
    with local.folder.locked(lambda: None):
        return server.start()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Note whether the stack ran before; pytest-xdist's workers leave that to their parent."""
    local = _local()
    ran_before = any(service.running for service in local.status())
    session.config.stash[_STOPS] = not (ran_before or worker())
    if session.config.stash[_STOPS] and not session.config.getoption("--quick"):
        local.folder.create()
        if not _homes(local)[0].exists():  # no ledger is left of what Kafka's groups committed
            shutil.rmtree(local.folder.root / local.kafka.name / "data", ignore_errors=True)
        for home in _homes(local):
            put_in_memory(home)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A stack that this session started is stopped, however the session ends."""
    end_airflow(session.config)
    if session.config.stash.get(_STOPS, False):
        local = _local()
        _old_postgres(local).stop()
        local.down()
        for home in _homes(local):
            take_from_memory(home)


@pytest.fixture(autouse=True)
def as_found() -> Iterator[None]:
    """A project that a test puts onto the search path is not found by the tests after it."""
    path, python_path = [*sys.path], os.environ.get("PYTHONPATH")
    yield
    sys.path[:] = path
    os.environ.pop("PYTHONPATH", None)
    if python_path is not None:
        os.environ["PYTHONPATH"] = python_path


@pytest.fixture(scope="session")
def stack() -> LocalStack:
    """Kafka and Postgres, running; one that ran before is used and left running."""
    local = _local()
    local.up(["kafka", "postgres"])
    return local


@pytest.fixture
def ddl_postgres(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """This Postgres judges DDL, and none that takes seconds to start."""
    monkeypatch.setattr("tidemark_local.postgres.throwaway", lambda: stack.postgres)


@pytest.fixture(scope="session")
def dags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The DAG files that Airflow sees: this project's, and what a test adds."""
    folder = tmp_path_factory.mktemp("airflow")
    for part in ("plugins", "jobs"):
        (folder / part).symlink_to(PROJECT / part)
    shutil.copytree(PROJECT / "dags", folder / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "dags"


@pytest.fixture(scope="session")
def passwords(stack: LocalStack) -> dict[str, str]:
    """One in each connection of Airflow; this Kafka and a local Spark do not ask for theirs."""
    own = {"Kafka": token_hex(), "Spark": token_hex()}
    return own | {"Postgres": stack.postgres.parameters("warehouse")["password"]}


def with_passwords(variables: dict[str, str], passwords: dict[str, str]) -> dict[str, str]:
    """The environment's connections, these passwords in them."""
    kafka, spark = json.loads(variables[KAFKA]), json.loads(variables[SPARK])
    kafka["extra"]["sasl.password"] = passwords["Kafka"]
    spark["password"] = passwords["Spark"]
    return variables | {KAFKA: json.dumps(kafka), SPARK: json.dumps(spark)}


@pytest.fixture(scope="module")
def airflow(
    request: pytest.FixtureRequest, stack: LocalStack, dags: Path, passwords: dict[str, str]
) -> Airflow:
    """Airflow's four processes, with these DAGs; they go on while tests that follow need them."""
    if _AIRFLOW not in request.config.stash:
        variables = with_passwords(stack.environment(), passwords)
        with pytest.MonkeyPatch.context() as patch:
            # A DAG file never changes: to parse each twice a minute takes a sixth of a core.
            patch.setenv("AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL", "3600")
            patch.setattr(stack.airflow, "_project", dags.parent)
            patch.setattr(stack.airflow, "_connections", lambda: variables)
            stack.airflow.stop()  # another one has other DAGs
            stack.up(["airflow"])
        request.config.stash[_AIRFLOW] = stack.airflow
    return stack.airflow


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Airflow ends with the last of its tests: beside others it would take a fifth of a core."""
    if nextitem is None or nextitem.get_closest_marker("airflow") is None:
        end_airflow(item.config)


def end_airflow(config: pytest.Config) -> None:
    """The Airflow that this session started does not run."""
    if running := config.stash.get(_AIRFLOW, None):
        running.stop()
        del config.stash[_AIRFLOW]


@pytest.fixture(scope="session")
def kafka(stack: LocalStack) -> str:
    """The bootstrap servers of a real broker."""
    return stack.kafka.bootstrap


@pytest.fixture(scope="session")
def admin(kafka: str) -> AdminClient:
    """An AdminClient of the broker."""
    return AdminClient({"bootstrap.servers": kafka})


@pytest.fixture
def topic(admin: AdminClient) -> Iterator[Callable[..., str]]:
    """Makes topics that no other test has: `topic(partitions=3, **config)` returns the name."""
    made: list[str] = []

    def make(partitions: int = 1, **config: str) -> str:
        name = f"t-{uuid.uuid4().hex[:12]}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)
        made.append(create_topic(admin, new))
        return name

    yield make
    for future in admin.delete_topics(made).values() if made else ():
        future.exception(120)  # a test may have deleted it itself


@pytest.fixture
def group() -> str:
    """A name for a region and its consumer group that no other test has."""
    return f"g_{uuid.uuid4().hex[:12]}"


@pytest.fixture
def warehouse(stack: LocalStack) -> Iterator[Parameters]:
    """A database of this test's own, owned by the role that connects."""
    yield from database_of(stack.postgres)


@pytest.fixture(scope="session")
def old_server(stack: LocalStack) -> Postgres:
    """A PostgreSQL 15, the oldest supported; skips where it is not installed."""
    if not (OLD_POSTGRES / "postgres").exists():
        pytest.skip(f"no PostgreSQL 15 in {OLD_POSTGRES} (apt-get install postgresql-15)")
    server = _old_postgres(stack)
    running(stack, server)
    return server


@pytest.fixture
def old_warehouse(old_server: Postgres) -> Iterator[Parameters]:
    """A database of this test's own on PostgreSQL 15."""
    yield from database_of(old_server)


@pytest.fixture(params=["18", "15"])
def any_warehouse(request: pytest.FixtureRequest) -> Parameters:
    """A database of this test's own, on the newest and on the oldest supported Postgres."""
    fixture = "warehouse" if request.param == "18" else "old_warehouse"
    database: Parameters = request.getfixturevalue(fixture)
    return database


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A module whose VERSIONS name versions of Postgres has its `database` on each of them.

    The first tier takes the first of them.
    """
    if "database" in metafunc.fixturenames and (found := getattr(metafunc.module, "VERSIONS", ())):
        newest, *others = found
        versions = [newest, *(pytest.param(one, marks=pytest.mark.long) for one in others)]
        metafunc.parametrize("database", versions, indirect=True, scope="module")


@pytest.fixture(scope="module")
def database(request: pytest.FixtureRequest, stack: LocalStack) -> Iterator[Parameters]:
    """A database of a module's own, on the newest Postgres unless the module names VERSIONS."""
    old = getattr(request, "param", "18") == "15"
    yield from database_of(request.getfixturevalue("old_server") if old else stack.postgres)


@pytest.fixture
def connection(database: Parameters) -> Iterator[Connection]:
    """A connection to the module's database, emptied for one test."""
    yield from emptied(database)


@pytest.fixture
def cursor(connection: Connection) -> Iterator[Cursor]:
    """A cursor of that connection."""
    with connection.cursor() as cursor:
        yield cursor
