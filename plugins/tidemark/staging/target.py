"""The target table: created from the rows' columns if absent, else checked against them."""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.errors import Refused, SchemaMismatch
from tidemark.model.batch import ONLY
from tidemark.model.table_name import parse_table
from tidemark.postgres.session import lock_name
from tidemark.staging.catalog import (
    Relation,
    TableColumn,
    find_columns,
    find_interfering,
    find_relation,
    find_rights,
)
from tidemark.staging.column import BATCH_SEQ, Column
from tidemark.staging.fit import Difference, differences, quoted

_TABLE_KINDS = "rp"
_KINDS = {
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table, which is outside of the transaction",
    "i": "an index",
    "I": "an index",
    "S": "a sequence",
    "c": "a composite type",
}
_CREATE = sql.SQL("CREATE TABLE {target} ({columns}, {batch_seq} bigint NOT NULL{key})")
_KEY = sql.SQL(", PRIMARY KEY ({})")
# BRIN: rows arrive in the order of their batches, so it finds them at almost no cost to inserts; an
# upsert changes old rows in place
_INDEX = sql.SQL("CREATE INDEX ON {target} USING brin ({batch_seq}) WITH (autosummarize = on)")


@dataclass(frozen=True, slots=True)
class Target:
    """A table by its exact names; case and spaces matter."""

    schema: str
    table: str
    name: str = ONLY
    """In the pipeline file, in the ledger and in the names of staging tables."""

    @classmethod
    def parse(cls, table: str, name: str = ONLY) -> "Target":
        """Read `public.flights` or `"My Schema"."Flights 2"`; as in SQL, unquoted is lower case.

        Raises:
            InvalidSettings: not two identifiers, or one has more than 63 bytes.
        """
        return cls(*parse_table(table), name)

    @property
    def identifier(self) -> sql.Identifier:
        """The name for a statement."""
        return sql.Identifier(self.schema, self.table)

    def __str__(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.table)}"


def ensure(
    cursor: Cursor, target: Target, columns: Sequence[Column], key: Sequence[str] = ()
) -> bool:
    """Ensure that the target accepts rows of `columns` with a batch_seq; True if it was created.

    A new table has `key` as its primary key; one that exists is not asked for it.

    Runs in the caller's transaction and holds a lock to its end, so that two callers at once see
    one table. A table that exists is never altered.

    Raises:
        SchemaMismatch: the table does not fit; names each difference and the ALTER TABLE for it.
        Refused: the name is not a table, the table is unlogged or hides rows, a rule replaces
            inserts, or a right is missing.
    """
    lock_name(cursor, f"tidemark {target}")
    relation = find_relation(cursor, target.schema, target.table)
    if relation is None:
        _create(cursor, target, columns, key)
        return True
    _refuse_other_kinds(target, relation)
    refuse_row_security(target, relation)
    refuse_rules(target, find_interfering(cursor, target.schema, target.table, "INSERT"))
    table = find_columns(cursor, target.schema, target.table)
    _refuse_differences(target, list(differences(columns, table)))
    _refuse_missing_rights(cursor, target, relation, columns, table)
    return False


def _create(cursor: Cursor, target: Target, columns: Sequence[Column], key: Sequence[str]) -> None:
    rights = find_rights(cursor, target.schema)
    schema, user = quoted(target.schema), quoted(rights.user)
    if rights.create is None:
        raise Refused(
            f"{target}: schema {schema} does not exist; run: "
            f"CREATE SCHEMA {schema} AUTHORIZATION {user};"
        )
    if not (rights.create and rights.usage):
        raise Refused(
            f"{target} does not exist and {user} may not create it; run: "
            f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {user}; or create the table"
        )
    definitions = [
        sql.SQL("{} " + column.postgres_type).format(sql.Identifier(column.name))
        for column in columns
    ]
    names = {"target": target.identifier, "batch_seq": sql.Identifier(BATCH_SEQ)}
    primary = _KEY.format(sql.SQL(", ").join(map(sql.Identifier, key))) if key else sql.SQL("")
    cursor.execute(_CREATE.format(columns=sql.SQL(", ").join(definitions), key=primary, **names))
    if not key:
        cursor.execute(_INDEX.format(**names))


def _refuse_other_kinds(target: Target, relation: Relation) -> None:
    if relation.kind not in _TABLE_KINDS:
        raise Refused(
            f"{target} is {_KINDS.get(relation.kind, 'no table')}; set target.table to "
            "a table (it may be partitioned)"
        )
    if relation.persistence == "u":
        raise Refused(
            f"{target} is UNLOGGED: a crash of Postgres would empty it, but not the ledger; "
            f"run: ALTER TABLE {target} SET LOGGED;"
        )


def refuse_row_security(target: Target, relation: Relation) -> None:
    """Refuse a table whose policies apply to this role: it can't count or remove what it wrote.

    Raises:
        Refused: with the statements that help.
    """
    if relation.has_row_security:
        user = quoted(relation.user)
        raise Refused(
            f"{target} has row level security that applies to {user}: rows that it hides can be"
            " neither counted nor removed, and would arrive twice after a rewind; run as an"
            f" administrator: ALTER ROLE {user} BYPASSRLS; or: ALTER TABLE {target} DISABLE ROW"
            " LEVEL SECURITY;"
        )


def refuse_rules(target: Target, interfering: Sequence[str]) -> None:
    """Refuse a table whose rules replace an INSERT; `interfering` is from `find_interfering`.

    Raises:
        Refused: with the statements that help.
    """
    rules = [name.removeprefix("rule ") for name in interfering if name.startswith("rule ")]
    if rules:
        drops = " ".join(f"DROP RULE {quoted(name)} ON {target};" for name in rules)
        raise Refused(
            f"{target} has rules that replace an INSERT: {', '.join(rules)}; no row would"
            f" arrive in it. Set target.table to the table that they write to, or run: {drops}"
        )


def _refuse_differences(target: Target, found: list[Difference]) -> None:
    if not found:
        return
    facts = [f"  {difference.column}: {difference.fact}" for difference in found]
    actions = dict.fromkeys(action for difference in found for action in difference.actions)
    raise SchemaMismatch(
        "\n".join(
            [
                f"{target} does not fit the transform's rows; nothing was written:",
                *facts,
                "change the transform, or alter the table:",
                *(f"  ALTER TABLE {target} {action};" for action in actions),
            ]
        )
    )


def _refuse_missing_rights(
    cursor: Cursor,
    target: Target,
    relation: Relation,
    columns: Sequence[Column],
    table: Sequence[TableColumn],
) -> None:
    grants = []
    user = quoted(find_rights(cursor, target.schema).user)
    if not relation.schema_is_usable:
        grants.append(f"GRANT USAGE ON SCHEMA {quoted(target.schema)} TO {user};")
    written = {BATCH_SEQ, *(column.name for column in columns)}
    if any(own.name in written and not own.is_writable for own in table):
        grants.append(f"GRANT INSERT ON {target} TO {user};")
    if grants:
        raise Refused(f"{user} may not write to {target}; run: {' '.join(grants)}")
