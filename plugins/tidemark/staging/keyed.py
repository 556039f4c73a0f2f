"""The target of an upsert: a table with a unique index on the key."""

from collections.abc import Mapping, Sequence

from psycopg2.extensions import cursor as Cursor

from tidemark.errors import InvalidSettings, Refused, SchemaMismatch
from tidemark.model.upsert import Upsert
from tidemark.staging.catalog import (
    TableColumn,
    find_columns,
    find_rights,
    find_table_rights,
    find_unique_keys,
)
from tidemark.staging.column import Column
from tidemark.staging.fit import quoted
from tidemark.staging.refused_records import refuse_without_coordinates
from tidemark.staging.target import Target, ensure

_OWN = "tidemark "
"""Begins the names of columns that an upsert adds to find the last rows."""

# Equal values of these types have equal texts: the ledger keeps keys as texts.
_KEYS = ("smallint", "integer", "bigint", "boolean", "text", "character varying", "date", "bytea",
         "uuid", "timestamp", "numeric(")  # fmt: skip
_ORDERS = ("smallint", "integer", "bigint", "text", "character varying", "date", "timestamp",
           "numeric(")  # fmt: skip


def stored(columns: Sequence[Column], upsert: Upsert) -> tuple[Column, ...]:
    """The columns that the target has: all but the one that marks deletions."""
    return tuple(column for column in columns if column.name != upsert.deleted)


def ensure_keyed(cursor: Cursor, target: Target, columns: Sequence[Column], upsert: Upsert) -> bool:
    """Ensure that rows of `columns` can be upserted into the target; True if it was created.

    As `ensure`; a new table has the key as its primary key, one that exists needs a unique index.

    Raises:
        InvalidSettings: the rows lack a column that the upsert needs, or it has an unfit type.
        SchemaMismatch: the table does not fit, or has no unique index on exactly the key.
        Refused: see `ensure`; or a right is missing.
    """
    refuse_without_coordinates(columns, "mode: upsert", "mode: append")
    refuse_unfit({column.name: column.postgres_type for column in columns}, upsert)
    is_new = ensure(cursor, target, stored(columns, upsert), upsert.key)
    table = {own.name: own for own in find_columns(cursor, target.schema, target.table)}
    refuse_unfit_types(target, table, upsert)
    _refuse_without_index(cursor, target, upsert)
    _refuse_missing_rights(cursor, target)
    return is_new


def refuse_unfit(types: Mapping[str, str], upsert: Upsert) -> None:
    """Refuse rows of columns with these types, if they can't be upserted so.

    Raises:
        InvalidSettings: a column lacks that the upsert names, or has an unfit type or name.
    """
    if missing := [name for name in upsert.names if name not in types]:
        raise InvalidSettings(
            f"target: the rows have no column {', '.join(missing)}; they have {', '.join(types)}"
        )
    if reserved := [name for name in types if name.startswith(_OWN)]:
        raise InvalidSettings(
            f"target.mode: upsert can't write columns whose names begin with {_OWN!r}: {reserved}"
        )
    if upsert.deleted and types[upsert.deleted] != "boolean":
        raise InvalidSettings(
            f"target.deleted: column {upsert.deleted} is {types[upsert.deleted]}, not boolean"
        )


def refuse_unfit_types(target: Target, table: Mapping[str, TableColumn], upsert: Upsert) -> None:
    """Refuse a table whose columns can't tell rows apart, or order them.

    Raises:
        InvalidSettings: equal values of a column may have different texts, or have no order.
    """
    for name in upsert.key:
        if not table[name].type_name.startswith(_KEYS):
            raise InvalidSettings(
                f"target.key: column {name} of {target} is {table[name].type_name}, whose equal"
                " values may have different texts; use a number, text, date, timestamp, uuid or"
                " bytea"
            )
    order = upsert.order_by
    if order and not table[order].type_name.startswith(_ORDERS):
        raise InvalidSettings(
            f"target.order_by: column {order} of {target} is {table[order].type_name}; use an"
            " integer, a decimal, a date, a timestamp or text"
        )


def _refuse_without_index(cursor: Cursor, target: Target, upsert: Upsert) -> None:
    key = sorted(upsert.key)
    exact = [is_exact for of, is_exact in find_unique_keys(cursor, target.schema, target.table)
             if of == key]  # fmt: skip
    columns = ", ".join(map(quoted, upsert.key))
    if not exact:
        raise SchemaMismatch(
            f"{target} has no unique index on exactly ({columns}), which an upsert needs (not"
            f" partial, not deferrable); run: CREATE UNIQUE INDEX ON {target} ({columns});"
        )
    if not all(exact):
        raise SchemaMismatch(
            f"{target}: the unique index on ({columns}) has a nondeterministic collation: it calls"
            " different texts equal. Give the columns a deterministic one"
        )


def _refuse_missing_rights(cursor: Cursor, target: Target) -> None:
    rights = find_table_rights(cursor, target.schema, target.table)
    asked = {"SELECT": rights.select, "UPDATE": rights.update, "DELETE": rights.delete}
    if missing := ", ".join(name for name, granted in asked.items() if not granted):
        user = quoted(find_rights(cursor, target.schema).user)
        raise Refused(
            f"{user} may not upsert into {target}; run: GRANT {missing} ON {target} TO {user};"
        )
