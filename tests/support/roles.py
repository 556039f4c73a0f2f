"""A region whose worker, executors and readers log in as the roles of docs/roles.md."""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import psycopg2
from psycopg2 import sql
from tests.support.databases import administer
from tests.support.documents import ROOT, blocks
from tests.support.region import ask, kafka_connection, postgres_connection
from tests.support.world import World

from tidemark.ledger.migrate import migrate
from tidemark.postgres.transaction import connect
from tidemark.settings.connections import Connection
from tidemark_local.postgres import ADMIN, Postgres

ROLES = ("owner", "worker", "executor", "reader")
SCHEMAS, TAKEN_BACK, TARGET, REPLAYS = (
    block.text for block in blocks(ROOT / "docs" / "roles.md") if block.language == "sql"
)
TABLE = (
    "CREATE TABLE public.flights (kafka_topic text, kafka_partition int, kafka_offset bigint,"
    " value text, batch_seq bigint NOT NULL)"
)


@dataclass
class RoleWorld(World):
    """The roles have names of their own here: they are known to the whole server."""

    prefix: str = ""
    administrator: dict[str, Any] = field(default_factory=dict)
    guarded: str = ""
    """Where the roles reach the broker, if it asks who they are."""
    logins: dict[str, dict[str, str]] = field(default_factory=dict)
    """By role, what their connections to Kafka say besides."""

    @property
    def connections(self) -> dict[str, Connection]:
        """By the ids of docs/roles.md."""
        found = {}
        for role in ROLES[1:]:
            end = "" if role == "worker" else f"_{role}"
            kafka = kafka_connection(self.guarded or self.kafka, **self.logins.get(role, {}))
            warehouse = postgres_connection(self.login(role))
            for one in (kafka, warehouse):
                found[one.conn_id + end] = replace(one, conn_id=one.conn_id + end)
        return found

    @property
    def file(self) -> dict[str, Any]:
        """With the keys of docs/roles.md."""
        keys = ("kafka", "warehouse")
        return super().file | {
            f"{role}s": {key: f"tidemark_{key}_{role}" for key in keys} for role in ROLES[2:]
        }

    def login(self, role: str) -> dict[str, Any]:
        """What psycopg2 needs to be the role."""
        return self.warehouse | {"user": f"{self.prefix}{role}", "password": role}

    def sql(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement as the administrator: who looks at the result is none of the roles."""
        return ask(self.administrator, statement, values)

    def as_role(self, role: str, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement as the role."""
        return ask(self.login(role), statement)

    def grant(self, block: str) -> None:
        """An administrator executes it, with the world's names."""
        text = re.sub(r"\btidemark_(owner|worker|executor|reader)\b", rf"{self.prefix}\1", block)
        text = text.replace("DATABASE warehouse", f"DATABASE {self.warehouse['dbname']}")
        ask(self.administrator, text)


@contextmanager
def roles_on(server: Postgres) -> Iterator[str]:
    """The prefix of roles that are not there at the end; their databases go before it."""
    prefix = f"r_{uuid4().hex[:8]}_"
    yield prefix
    for role in ROLES:
        administer(server, "DROP ROLE IF EXISTS {}", f"{prefix}{role}")


def granted(world: RoleWorld, server: Postgres) -> RoleWorld:
    """The ledger and a target are there, with the grants of docs/roles.md and no others."""
    world.settings["target"] = {"table": "public.flights"}
    world.administrator = server.parameters(world.warehouse["dbname"], ADMIN)
    world.grant(SCHEMAS)
    # of a database that is open to nobody, as a careful administrator has it
    ask(world.administrator, f"REVOKE ALL ON DATABASE {world.warehouse['dbname']} FROM PUBLIC")
    with closing(psycopg2.connect(**world.administrator)) as connection, connection:
        for role in ROLES:
            name, word = sql.Identifier(f"{world.prefix}{role}"), sql.Literal(role)
            statement = sql.SQL("ALTER ROLE {} PASSWORD {}").format(name, word)
            connection.cursor().execute(statement)
    engine = connect(world.login("owner"))
    migrate(engine)
    engine.dispose()
    ask(world.administrator, TABLE)
    world.grant(TAKEN_BACK)
    world.grant(TARGET)
    return world
