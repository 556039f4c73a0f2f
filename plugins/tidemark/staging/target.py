"""The target table: created from the rows' columns if absent, else checked against them.

And what it holds: the number of its rows beside the ledger's, and rows that a region which is gone
has left. What is asked of the ledger's deciding transaction stands in the ports here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg2 import sql

from tidemark.errors import quoted
from tidemark.model.batch import ONLY
from tidemark.model.table_name import parse_table
from tidemark.postgres.session import Cursor, lock_name
from tidemark.protocol.ports import Deciding
from tidemark.staging.catalog import (
    Relation,
    TableColumn,
    find_columns,
    find_interfering,
    find_parts,
    find_relation,
    find_rights,
    find_unidentified,
)
from tidemark.staging.column import BATCH_SEQ, Column
from tidemark.staging.errors import (
    PartsAreForeign,
    TargetDoesNotFit,
    TargetHasLeftovers,
    TargetHasRules,
    TargetHidesRows,
    TargetIsNoTable,
    TargetIsUnlogged,
    TargetLacksIdentity,
    TargetRightMissing,
    TargetSchemaMissing,
)
from tidemark.staging.fit import differences

_TABLE_KINDS = "rp"
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
        Refused: see `refuse_unfit_table`; or a right is missing.
    """
    lock_name(cursor, f"tidemark {target}")
    relation = find_relation(cursor, target.schema, target.table)
    if relation is None:
        _create(cursor, target, columns, key)
        return True
    refuse_unfit_table(cursor, target, relation)
    table = refuse_unfit_columns(cursor, target, columns)
    _refuse_missing_rights(cursor, target, relation, columns, table)
    return False


def refuse_unfit_columns(
    cursor: Cursor, target: Target, columns: Sequence[Column]
) -> Sequence[TableColumn]:
    """Refuse a table that does not hold each value of rows as it is; return its columns.

    Before rows are moved this is a look. Behind them it is a fact: their locks keep the columns.

    Raises:
        SchemaMismatch: names each difference and the ALTER TABLE for it.
    """
    table = find_columns(cursor, target.schema, target.table)
    found = tuple(differences(columns, table))
    if found and (table or find_relation(cursor, target.schema, target.table)):
        raise TargetDoesNotFit(target=str(target), differences=found)
    return table  # no columns: the statement that writes says that there is no table


def _create(cursor: Cursor, target: Target, columns: Sequence[Column], key: Sequence[str]) -> None:
    rights = find_rights(cursor, target.schema)
    if rights.create is None:
        raise TargetSchemaMissing(target=str(target), schema=target.schema, user=rights.user)
    if not (rights.create and rights.usage):
        schema, user = quoted(target.schema), quoted(rights.user)
        raise TargetRightMissing(
            target=str(target),
            user=rights.user,
            action="create",
            grant=f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {user};",
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


def keep(transaction: Deciding, target: Target) -> None:
    """The target is the table that the region publishes to, and is fit for that.

    Call it after rows were inserted or deleted: their locks keep the table, and each partition that
    they are in, as they are found. Before, it may change at any time after the open.

    Raises:
        TargetRefused: the region has published to another table.
        Refused: see `refuse_unfit_table`.
    """
    transaction.keep_target(target.name, target.schema, target.table)
    relation = find_relation(transaction.cursor, target.schema, target.table)
    if relation is not None:
        refuse_unfit_table(transaction.cursor, target, relation)


def refuse_unfit_table(cursor: Cursor, target: Target, relation: Relation) -> None:
    """Refuse a table that may not keep, or not show, what is written to it.

    Raises:
        Refused: the name is not a table; a part of it is UNLOGGED or a foreign table; it hides
            rows; or a rule replaces inserts. With the statements that help.
    """
    if relation.kind not in _TABLE_KINDS:
        raise TargetIsNoTable(target=str(target), kind=relation.kind)
    _refuse_parts(cursor, target, relation)
    if relation.has_row_security:
        raise TargetHidesRows(target=str(target), user=relation.user)
    _refuse_rules(target, find_interfering(cursor, target.schema, target.table, "INSERT"))


def refuse_unidentified(
    cursor: Cursor, target: Target, *, deletes: bool, updates: bool = False
) -> None:
    """Refuse a table of which a publication sends what is done, and nothing tells rows apart.

    Raises:
        Refused: Postgres would refuse that; names the REPLICA IDENTITY that helps.
    """
    found = find_unidentified(cursor, target.schema, target.table, deletes=deletes, updates=updates)
    if found:
        names = {name for *_, publications in found for name in publications}
        done = {"updates": updates, "deletions": deletes}
        raise TargetLacksIdentity(
            target=str(target),
            tables=tuple(str(Target(schema, table)) for schema, table, _ in found),
            publications=tuple(sorted(names)),
            changes=" and ".join(name for name, is_done in done.items() if is_done),
        )


def _refuse_parts(cursor: Cursor, target: Target, relation: Relation) -> None:
    parts = find_parts(cursor, target.schema, target.table)
    unlogged = [str(Target(part.schema, part.table)) for part in parts if part.is_unlogged]
    if relation.persistence == "u" and relation.kind == "r":  # a partitioned one has no rows itself
        unlogged.append(str(target))
    if unlogged:
        raise TargetIsUnlogged(target=str(target), tables=tuple(unlogged))
    foreign = [
        (str(Target(part.parent_schema, part.parent)), str(Target(part.schema, part.table)))
        for part in parts
        if part.is_foreign
    ]
    if foreign:
        raise PartsAreForeign(target=str(target), parts=tuple(foreign))


def _refuse_rules(target: Target, interfering: Sequence[str]) -> None:
    rules = [name.removeprefix("rule ") for name in interfering if name.startswith("rule ")]
    if rules:
        raise TargetHasRules(target=str(target), rules=tuple(rules))


def _refuse_missing_rights(
    cursor: Cursor,
    target: Target,
    relation: Relation,
    columns: Sequence[Column],
    table: Sequence[TableColumn],
) -> None:
    written = {BATCH_SEQ, *(column.name for column in columns)}
    is_insert_missing = any(own.name in written and not own.is_writable for own in table)
    missing = {
        f"USAGE ON SCHEMA {quoted(target.schema)}": not relation.schema_is_usable,
        f"INSERT ON {target}": is_insert_missing,
    }
    if any(missing.values()):
        user = find_rights(cursor, target.schema).user
        grants = (f"GRANT {one} TO {quoted(user)};" for one in missing if missing[one])
        raise TargetRightMissing(
            target=str(target), user=user, action="write to", grant=" ".join(grants)
        )


_BOTH = sql.SQL("""
SELECT (SELECT coalesce(sum(l.rows), 0)::bigint
        FROM tidemark.rows_left({region}, {name}, {since}) l),
       (SELECT count(*) FROM {target} WHERE {batch_seq} >= greatest({since}, 1))
""")


def count_beside_ledger(cursor: Cursor, target: Target, region: str, since: int) -> tuple[int, int]:
    """Rows from a checkpoint on: as the ledger counted them, and in the target; one snapshot."""
    # literals: if there are parameters, psycopg2 reads a % in a name as a placeholder
    statement = _BOTH.format(
        target=target.identifier,
        batch_seq=sql.Identifier(BATCH_SEQ),
        name=sql.Literal(target.name),
        region=sql.Literal(region),
        since=sql.Literal(since),
    )
    cursor.execute(statement)
    ledger, rows = cursor.fetchone() or (0, 0)
    return ledger, rows


_MAY_LOOK = sql.SQL("SELECT has_table_privilege({name}, 'SELECT')")
_LEFT = sql.SQL("SELECT EXISTS (SELECT FROM {target} WHERE {batch_seq} > 0)")


def refuse_leftovers(cursor: Cursor, target: Target) -> None:
    """Refuse a target with rows of batches, for a region that has published nothing.

    Its own batches would get the same seqs: counts, proofs and rewinds would take both for one.

    Raises:
        Refused: with the statement that makes them rows of no batch, which no rewind removes.
    """
    if find_relation(cursor, target.schema, target.table) is None:
        return
    columns = {own.name for own in find_columns(cursor, target.schema, target.table)}
    cursor.execute(_MAY_LOOK.format(name=sql.Literal(str(target))))
    if BATCH_SEQ not in columns or cursor.fetchone() != (True,):
        return
    cursor.execute(_LEFT.format(target=target.identifier, batch_seq=sql.Identifier(BATCH_SEQ)))
    if cursor.fetchone() == (True,):
        raise TargetHasLeftovers(target=str(target))
