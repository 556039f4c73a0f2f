"""What Postgres' catalog says about a table: its kind, its columns and our rights."""

from dataclasses import dataclass

from psycopg2 import sql

from tidemark.postgres.session import Cursor, query

_EVENTS = {"INSERT": (4, "3"), "DELETE": (8, "4"), "UPDATE": (16, "2")}
"""The bit of pg_trigger.tgtype, and pg_rewrite.ev_type."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, or another relation with its name."""

    kind: str
    """As in pg_class: r table, p partitioned table, v view, m materialized view …"""
    persistence: str
    """p permanent, u unlogged, t temporary."""
    schema_is_usable: bool
    has_row_security: bool
    """Whether policies apply to the current user and may hide rows from it."""
    user: str


@dataclass(frozen=True, slots=True)
class Part:
    """A table below a target that is no ordinary partition."""

    schema: str
    table: str
    parent_schema: str
    parent: str
    is_foreign: bool
    is_unlogged: bool
    is_partition: bool
    """Else it inherits."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table, from Postgres' catalog."""

    name: str
    type_name: str
    is_required: bool
    """NOT NULL."""
    has_default: bool
    identity: str
    """a always, d by default, empty: not an identity."""
    generated: str
    """s stored, v virtual, empty: not generated."""
    is_writable: bool
    """Whether the current user may insert it."""
    primary_key: str | None
    """The name of the primary key that it is part of, if it is."""
    parses_text: bool
    """Whether it holds what a text says (uuid, an enum, jsonb, a range, …), or such an array."""

    @property
    def fills_itself(self) -> bool:
        """Whether a row that doesn't name the column can be inserted."""
        return not self.is_required or self.has_default or bool(self.identity or self.generated)


@dataclass(frozen=True, slots=True)
class SchemaRights:
    """Who we are and what we may do in a schema; None where the schema doesn't exist."""

    user: str
    usage: bool | None
    create: bool | None


@dataclass(frozen=True, slots=True)
class TableRights:
    """What we may do with the rows of a table."""

    select: bool
    insert: bool
    delete: bool
    update: bool


def find_relation(cursor: Cursor, schema: str, table: str) -> Relation | None:
    """Return the relation that has this name; None if there is none."""
    cursor.execute(query("find_relation"), {"schema": schema, "table": table})
    row = cursor.fetchone()
    return None if row is None else Relation(*row)


def find_parts(cursor: Cursor, schema: str, table: str) -> list[Part]:
    """Each table below this one, however deep, that is no ordinary partition."""
    cursor.execute(query("find_parts"), {"schema": schema, "table": table})
    return [Part(*row) for row in cursor.fetchall()]


def find_interfering(cursor: Cursor, schema: str, table: str, *events: str) -> list[str]:
    """Each `trigger x` and `rule y` of the table that can suppress an INSERT, UPDATE or DELETE."""
    triggers, rules = zip(*(_EVENTS[event] for event in events), strict=True)
    values = {"schema": schema, "table": table, "triggers": sum(triggers), "rules": list(rules)}
    cursor.execute(query("find_interfering"), values)
    return [f"{kind} {name}" for kind, name in cursor.fetchall()]


def find_acting(cursor: Cursor, schema: str, table: str) -> list[tuple[str, str, str]]:
    """Each foreign key that changes rows if one of the table is deleted: its table and its name."""
    cursor.execute(query("find_acting"), {"schema": schema, "table": table})
    return cursor.fetchall()


def find_columns(cursor: Cursor, schema: str, table: str) -> list[TableColumn]:
    """Return the columns in the table's order."""
    cursor.execute(query("find_columns"), {"schema": schema, "table": table})
    return [TableColumn(*row) for row in cursor.fetchall()]


def find_rights(cursor: Cursor, schema: str) -> SchemaRights:
    """Return the current user with its rights in the schema."""
    cursor.execute(query("find_rights"), {"schema": schema})
    user, usage, create = cursor.fetchone() or ("", None, None)
    return SchemaRights(user, usage, create)


def find_table_rights(cursor: Cursor, schema: str, table: str) -> TableRights:
    """Return what the current user may do with the table's rows.

    Raises:
        psycopg2.Error: there is no such table, or its schema may not be used.
    """
    name = sql.Identifier(schema, table).as_string(cursor)
    cursor.execute(query("find_table_rights"), {"table": name})
    return TableRights(*(cursor.fetchone() or (False, False, False, False)))


def find_unidentified(
    cursor: Cursor, schema: str, table: str, *, deletes: bool, updates: bool
) -> list[tuple[str, str, list[str]]]:
    """Each table at or below this one of which Postgres refuses these, with its publications."""
    values = {"schema": schema, "table": table, "deletes": deletes, "updates": updates}
    cursor.execute(query("find_unidentified"), values)
    return cursor.fetchall()


def find_unique_keys(cursor: Cursor, schema: str, table: str) -> list[tuple[list[str], bool]]:
    """The columns of each unique index for ON CONFLICT, sorted; and whether equal means same bytes.

    Partial, deferrable and expression indexes are left out.
    """
    cursor.execute(query("find_unique_keys"), {"schema": schema, "table": table})
    return [(columns, is_exact) for columns, is_exact in cursor.fetchall()]
