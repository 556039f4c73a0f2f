"""What a check says of Postgres and the target."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine

from tidemark.check._grants import WORKER, granting, missing_rights, named
from tidemark.check.findings import Doubtful, Finding, State, Wrong, finding, found_by
from tidemark.ledger.migrate import SCHEMAS, is_current, newest
from tidemark.ledger.queries import LedgerQueries
from tidemark.postgres.parameters import postgres_parameters
from tidemark.postgres.session import SETTINGS, query
from tidemark.postgres.transaction import autocommit, connect
from tidemark.settings.connections import Connection
from tidemark.settings.endpoints import ConnectionOf
from tidemark.settings.pipeline import Pipeline
from tidemark.staging.catalog import (
    TableRights,
    find_interfering,
    find_relation,
    find_rights,
    find_table_rights,
    find_unidentified,
)
from tidemark.staging.target import Target, refuse_unfit_table


def target_findings(engine: Engine, target: Target) -> Iterator[Finding]:
    """Whether the target can be made or written, what guards it, and whether rewinds may remove."""
    rights: list[_Rights] = []
    yield finding(f"target {target}", lambda: _target(engine, target, rights))
    for right in rights:
        yield finding("target's guards", lambda: _guards(engine, target))
        yield finding("rewinds", lambda right=right: right.to_rewind(target))  # type: ignore[misc]
        yield finding("target's publications", lambda: _publications(engine, target))


@dataclass(frozen=True, slots=True)
class _Rights:
    """What the role may do with the target."""

    user: str
    on: TableRights

    def to_insert(self, target: Target) -> str:
        if not self.on.insert:
            raise Wrong(f"{self.user} may not insert", f'GRANT INSERT ON {target} TO "{self.user}"')
        return "may insert" + ("" if self.on.select else "; tidemark verify also needs SELECT")

    def to_rewind(self, target: Target) -> str:
        asked = {"SELECT": self.on.select, "DELETE": self.on.delete}
        missing = ", ".join(name for name, granted in asked.items() if not granted)
        if missing:
            raise Doubtful(
                f"{self.user} lacks {missing} on {target}: runs work, a rewind will be refused",
                f'GRANT {missing} ON {target} TO "{self.user}"',
            )
        return "may remove rows: tidemark reset --to"


def _guards(engine: Engine, target: Target) -> str:
    """What of the table could keep rows out, hide them, or keep them from a rewind."""
    with autocommit(engine) as cursor:
        relation = find_relation(cursor, target.schema, target.table)
        found = {
            event: find_interfering(cursor, target.schema, target.table, event)
            for event in ("INSERT", "DELETE")
        }
        if relation is not None:
            refuse_unfit_table(cursor, target, relation)
    told = [f"{name} (BEFORE {event})" for event, names in found.items() for name in names]
    if told:
        raise Doubtful(
            f"{', '.join(told)} may keep rows: a run or a rewind that meets one ends as"
            " TARGET_REFUSED",
            "nothing, if it returns NEW on INSERT and OLD on DELETE for every row",
        )
    return "no row security, trigger or rule that could keep rows"


def _publications(engine: Engine, target: Target) -> str:
    """Whether Postgres would refuse a rewind for what it sends to subscribers."""
    with autocommit(engine) as cursor:
        found = find_unidentified(cursor, target.schema, target.table, deletes=True, updates=False)
    if found:
        names = sorted({name for *_, publications in found for name in publications})
        tables = [Target(schema, table) for schema, table, _ in found]
        raise Doubtful(
            f"publication {', '.join(names)} sends deletions of {', '.join(map(str, tables))},"
            " whose rows nothing tells apart: runs that append work, a rewind will be refused",
            "; ".join(f"ALTER TABLE {table} REPLICA IDENTITY FULL" for table in tables),
        )
    return "none that would refuse a rewind"


def _target(engine: Engine, target: Target, rights: list[_Rights]) -> str:
    with autocommit(engine) as cursor:
        relation = find_relation(cursor, target.schema, target.table)
        found = find_rights(cursor, target.schema)
        if relation is not None and relation.schema_is_usable:
            table = find_table_rights(cursor, target.schema, target.table)
            rights.append(_Rights(found.user, table))
            return rights[0].to_insert(target)
    if found.create is None:
        raise Wrong(
            f"schema {target.schema} does not exist",
            f'CREATE SCHEMA "{target.schema}" AUTHORIZATION "{found.user}"',
        )
    if not found.usage or not (found.create or relation):
        needed = "USAGE" if relation else "USAGE, CREATE"
        raise Wrong(
            f"{found.user} may not {'use' if relation else 'create it in'} schema {target.schema}",
            f'GRANT {needed} ON SCHEMA "{target.schema}" TO "{found.user}"',
        )
    return "not there yet; the first run makes it from the transform's columns"


OLDEST = 150_000
VIEW = "tidemark.region_status"


def postgres_findings(pipeline: Pipeline, connection_of: ConnectionOf) -> Iterator[Finding]:
    """The connection, the server, its durability, and the role's rights."""
    conn_id = pipeline.warehouse
    known = finding("Postgres connection", lambda: _known(connection_of(conn_id)))
    yield known
    if known.state is not State.ok:
        return
    engine = connect(postgres_parameters(connection_of(conn_id)))
    try:
        yield from _of_server(engine, [*map(Target.parse, pipeline.tables.values())])
    finally:
        engine.dispose()


def _of_server(engine: Engine, targets: Sequence[Target]) -> Iterator[Finding]:
    reachable, server = found_by("Postgres server", lambda: _reach(engine))
    yield reachable
    if server is None:
        return
    yield finding("Postgres version", server.version_is_known)
    yield finding("Postgres primary", server.is_primary)
    yield finding("Postgres durability", server.is_durable)
    yield finding("Postgres encoding", server.takes_all_texts)
    yield finding("Postgres settings", lambda: _settings(engine))
    for schema in SCHEMAS:
        yield finding(
            f"schema {schema}",
            lambda schema=schema: _schema(engine, server, schema),  # type: ignore[misc]
        )
    ledger = finding("ledger", lambda: _ledger(engine))
    yield ledger
    if ledger.state is State.ok and LedgerQueries(engine).ledger_is_there():
        yield finding(f"view {VIEW}", lambda: _view(engine))
    for target in targets:
        yield from target_findings(engine, target)


@dataclass(frozen=True, slots=True)
class _ServerFacts:
    """What the server says of itself and of the role."""

    number: int
    version: str
    user: str
    is_read_only: bool
    fsync: str
    synchronous_commit: str
    full_page_writes: str
    may_create_schemas: bool
    database: str
    encoding: str

    def takes_all_texts(self) -> str:
        if self.encoding != "UTF8":
            raise Doubtful(
                f"database {self.database} has the encoding {self.encoding}: a text with a letter"
                " that it lacks is refused, and ends a run as TARGET_REFUSED",
                "use a database in UTF8; or set target.on_refused: dead_letter",
            )
        return "UTF8 takes all texts"

    def version_is_known(self) -> str:
        if self.number < OLDEST:
            raise Wrong(f"PostgreSQL {self.version}", "use PostgreSQL 15 or newer")
        return f"PostgreSQL {self.version}"

    def is_primary(self) -> str:
        if self.is_read_only:
            raise Wrong(
                "the server is a standby or read-only: nothing can be published there",
                "point the connection at the primary",
            )
        return "takes writes"

    def is_durable(self) -> str:
        settings = {
            "fsync": self.fsync,
            "synchronous_commit": self.synchronous_commit,
            "full_page_writes": self.full_page_writes,
        }
        off = [name for name, value in settings.items() if value == "off"]
        if off:
            raise Wrong(
                f"{', '.join(off)} is off: a crash may lose batches that were published",
                f"set {' and '.join(f'{name} = on' for name in off)}",
            )
        return ", ".join(f"{name} {value}" for name, value in settings.items())


def _known(found: Connection) -> str:
    p = postgres_parameters(found)
    return f"{found.conn_id}: {p['host']}:{p['port']}/{p['dbname']}"


def _reach(engine: Engine) -> tuple[str, _ServerFacts]:
    with autocommit(engine) as cursor:
        cursor.execute(query("server_facts"))
        server = _ServerFacts(*(cursor.fetchone() or ()))
    return f"answers as {server.user} in {server.database}", server


def _settings(engine: Engine) -> str:
    """What role or database set for sessions that ours do not heed, and what bounds them."""
    with autocommit(engine) as cursor:
        cursor.execute(query("role_settings"))
        given = {name: value for name, value in cursor.fetchall() if name.lower() in SETTINGS}
        cursor.execute(query("temp_file_limit"))
        [(limit,)] = cursor.fetchall()
    told = ["each session of ours sets its own"]
    if given:
        others = ", ".join(f"{name}={value}" for name, value in sorted(given.items()))
        told.append(f"of the role or the database it does not heed {others}")
    if limit != "-1":
        told.append(f"temp_file_limit={limit} ends a statement that sorts more")
    return "; ".join(told)


def _schema(engine: Engine, server: _ServerFacts, schema: str) -> str:
    with autocommit(engine) as cursor:
        rights = find_rights(cursor, schema)
    if rights.create is None:
        if server.may_create_schemas:
            return "not there yet; the first run makes it"
        raise Wrong(
            f"does not exist, and {server.user} may not create schemas",
            f'GRANT CREATE ON DATABASE "{server.database}" TO "{server.user}"; or let an'
            " administrator run what `tidemark migrate --sql` prints",
        )
    # Tables are made in one of the two at every batch, in the other by migrations alone.
    needed = {"USAGE": rights.usage, "CREATE": rights.create or schema == SCHEMAS[0]}
    missing = ", ".join(name for name, granted in needed.items() if not granted)
    if missing:
        raise Wrong(
            f"{server.user} lacks {missing}",
            f'GRANT {missing} ON SCHEMA {schema} TO "{server.user}"',
        )
    return "may be used"


def _ledger(engine: Engine) -> str:
    if not LedgerQueries(engine).ledger_is_there():
        return f"not there yet; the first run, or `tidemark migrate`, makes revision {newest()}"
    if not is_current(engine):
        raise Wrong(
            "its schema is not this version's",
            "run tidemark migrate PIPELINE; or let an administrator run what"
            " `tidemark migrate --sql PIPELINE` prints",
        )
    with autocommit(engine) as cursor:
        missing = missing_rights(cursor, WORKER, ["r"])
        user = find_rights(cursor, SCHEMAS[0]).user
    if missing:
        raise Wrong(f"{user} lacks {named(missing)}", granting(missing, user))
    return f"revision {newest()}, all rights"


def _view(engine: Engine) -> str:
    """Who may read the view of dashboards, which need no right on the tables below it."""
    with autocommit(engine) as cursor:
        cursor.execute(query("view_readers"), {"view": VIEW})
        readers = [name for (name,) in cursor.fetchall()]
        user = find_rights(cursor, SCHEMAS[0]).user
    if user not in readers:
        raise Doubtful(f"{user} may not read it", f'GRANT SELECT ON {VIEW} TO "{user}"')
    others = [name for name in readers if name != user]
    return f"read by {', '.join(others)}" if others else "dashboards' roles need SELECT on it"
