"""The SQL of the documents: Postgres understands it, and its grants are enough for a run."""

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

import psycopg2
import psycopg2.errors
import pytest
from psycopg2 import sql
from tests.support.documents import ROOT, blocks, documents, table_rows
from tests.support.region import ask
from tests.support.world import World

from tidemark.ledger.migrate import migrate
from tidemark.postgres.transaction import connect
from tidemark.verify.verify import verify
from tidemark_local.postgres import ADMIN
from tidemark_local.stack import LocalStack

Parameters = dict[str, Any]

STATEMENTS = [
    (f"{block}", statement)
    for page in documents()
    for block in blocks(page)
    if block.language == "sql"
    for statement in filter(None, (text.strip() for text in block.text.split(";\n")))
]
SELECTS = [(where, text) for where, text in STATEMENTS if text.startswith("SELECT")]
OWN_SCHEMAS, READY_SCHEMAS = (
    block.text
    for block in blocks(ROOT / "docs" / "administration.md")
    if "CREATE ROLE" in block.text
)
TARGET = (
    "CREATE TABLE public.flights (kafka_topic text, kafka_partition int, kafka_offset bigint,"
    " value text, batch_seq bigint NOT NULL)"
)


def execute(parameters: Parameters, *statements: str) -> None:
    with closing(psycopg2.connect(**parameters)) as connection, connection:
        for statement in statements:
            connection.cursor().execute(statement)


@pytest.fixture(scope="module")
def migrated(stack: LocalStack) -> Iterator[Parameters]:
    """A database with the ledger and a target, for all statements."""
    admin = stack.postgres.parameters("postgres", ADMIN)
    name = f"docs_{uuid4().hex[:8]}"
    with closing(psycopg2.connect(**admin)) as connection:
        connection.autocommit = True
        connection.cursor().execute(f"CREATE DATABASE {name}")
        database = admin | {"dbname": name}
        engine = connect(database)
        migrate(engine)
        engine.dispose()
        execute(database, TARGET)
        yield database
        connection.cursor().execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize(("where", "statement"), SELECTS)
def test_postgres_understands_every_statement(
    migrated: Parameters, where: str, statement: str
) -> None:
    execute(migrated, f"PREPARE documented AS {statement.rstrip(';')}")


def test_every_statement_is_either_asked_or_granted() -> None:
    others = [text.split()[0] for _, text in STATEMENTS if not text.startswith("SELECT")]
    # ALTER and REVOKE by test_roles.py, DELETE by test_hand_over.py, UPDATE by test_region.py
    assert set(others) == {"CREATE", "GRANT", "REVOKE", "ALTER", "DELETE", "UPDATE"}


def test_every_table_of_the_ledger_is_described(migrated: Parameters) -> None:
    described = table_rows(ROOT / "docs" / "how-it-works.md", "table", "one row is")
    tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'tidemark'"
    found = {name for (name,) in ask(migrated, tables)} - {"alembic_version"}
    assert {row[0].strip("`") for row in described} == found


@pytest.fixture
def role(stack: LocalStack) -> Iterator[Parameters]:
    """The login of a role that does not exist yet; the database goes before it."""
    name = f"role_{uuid4().hex[:8]}"
    yield {"user": name, "password": "granted"}
    execute(stack.postgres.parameters("postgres", ADMIN), f"DROP ROLE IF EXISTS {name}")


@pytest.fixture
def administrator(stack: LocalStack, role: Parameters, warehouse: Parameters) -> Parameters:
    """The administrator's login to the test's database."""
    return stack.postgres.parameters(warehouse["dbname"], ADMIN)


def granted(administrator: Parameters, role: Parameters, block: str) -> None:
    """The block is executed with the test's names for role and database."""
    named = re.sub(r"(TO|ROLE) tidemark\b", rf"\1 {role['user']}", block)
    execute(
        administrator, named.replace("DATABASE warehouse", f"DATABASE {administrator['dbname']}")
    )
    # of a database that is open to nobody, as a careful administrator has it
    execute(administrator, f"REVOKE ALL ON DATABASE {administrator['dbname']} FROM PUBLIC")
    statement = sql.SQL("ALTER ROLE {} PASSWORD {}")
    with closing(psycopg2.connect(**administrator)) as connection, connection:
        name, password = sql.Identifier(role["user"]), sql.Literal(role["password"])
        connection.cursor().execute(statement.format(name, password))


def runs(world: World, warehouse: Parameters, role: Parameters, run: str) -> int:
    """Rows of a whole run, with a dead letter among its records, as this role."""
    world.warehouse = warehouse | role
    world.produce(5)
    closed = world.run(run)
    world.reset()
    return closed.rows


def test_the_grants_are_enough_to_make_the_schemas_and_run(
    role: Parameters, administrator: Parameters, warehouse: Parameters, world: World
) -> None:
    granted(administrator, role, OWN_SCHEMAS)
    assert runs(world, warehouse, role, "first") == 5
    execute(
        administrator, f"REVOKE CREATE ON DATABASE {administrator['dbname']} FROM {role['user']}"
    )
    assert runs(world, warehouse, role, "second") == 5


@pytest.mark.long
def test_the_grants_are_enough_where_an_administrator_made_the_schemas(
    role: Parameters, administrator: Parameters, warehouse: Parameters, world: World
) -> None:
    world.settings = {"target": {"table": "public.flights"}}
    engine = connect(administrator)
    migrate(engine)
    engine.dispose()
    execute(administrator, TARGET)
    granted(administrator, role, READY_SCHEMAS)
    assert runs(world, warehouse, role, "first") == 5
    assert ask(administrator, "SELECT count(*) FROM public.flights") == [(5,)]
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        ask(warehouse | role, "SELECT count(*) FROM public.flights")
    execute(administrator, f"GRANT SELECT ON public.flights TO {role['user']}")
    proof = verify(world.pipeline, world.connections, executor_of=world.executor_of)
    assert [(batch.wrong, batch.unverifiable) for batch in proof.batches] == [(0, ())]
