"""The target of an upsert: a table with a unique index on the key."""

from collections.abc import Mapping, Sequence

from tidemark.errors import quoted
from tidemark.model.upsert import Upsert, text_form
from tidemark.postgres.session import Cursor
from tidemark.protocol.ports import Deciding
from tidemark.staging.catalog import (
    TableColumn,
    find_columns,
    find_parts,
    find_rights,
    find_table_rights,
    find_unique_keys,
)
from tidemark.staging.column import Column
from tidemark.staging.errors import (
    CollationNondeterministic,
    ColumnTypeUnfit,
    DeletedIsNoBoolean,
    TargetIsInherited,
    TargetRightMissing,
    UniqueIndexMissing,
    UpsertColumnsMissing,
    UpsertColumnsReserved,
)
from tidemark.staging.refused import refuse_without_coordinates
from tidemark.staging.target import Target, ensure, refuse_unidentified

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
    The rows have what the upsert needs, see `refuse_unfit_rows`.

    Raises:
        SchemaMismatch: the table does not fit, or has no unique index on exactly the key.
        Refused: see `ensure` and `refuse_unidentified`; or a right is missing.
    """
    is_new = ensure(cursor, target, stored(columns, upsert), upsert.key)
    refuse_unfit_key(cursor, target, upsert, find_columns(cursor, target.schema, target.table))
    refuse_unidentified(cursor, target, deletes=upsert.deleted is not None, updates=True)
    _refuse_missing_rights(cursor, target)
    return is_new


def refuse_unfit_rows(columns: Sequence[Column], upsert: Upsert) -> None:
    """Refuse rows of these columns that can't be upserted so, into whatever table.

    Raises:
        InvalidSettings: they lack coordinates, or see `refuse_unfit_columns`.
    """
    refuse_without_coordinates(columns, "mode: upsert", "mode: append")
    refuse_unfit_columns({column.name: column.postgres_type for column in columns}, upsert)


def refuse_unfit_key(
    cursor: Cursor, target: Target, upsert: Upsert, columns: Sequence[TableColumn]
) -> dict[str, TableColumn]:
    """Refuse a table in which a key could be there twice, or not be found by its text.

    Returns the table's columns, by name.

    Raises:
        InvalidSettings: see `refuse_unfit_types`.
        SchemaMismatch: there is no unique index on exactly the key.
        Refused: equal keys may have different texts, or another table inherits from this one.
    """
    table = {own.name: own for own in columns}
    refuse_unfit_types(target, table, upsert)
    refuse_without_index(cursor, target, upsert.key)
    _refuse_inherited(cursor, target)
    return table


def keep_key(
    transaction: Deciding, target: Target, upsert: Upsert, columns: Sequence[TableColumn]
) -> None:
    """The key is fit, and its values have the texts by which the ledger knows keys.

    `columns` are the table's, found after rows were written: their lock keeps the table so.

    Raises:
        InvalidSettings, SchemaMismatch, Refused: see `refuse_unfit_key`.
        TargetRefused: a column of the key has got a type that makes other texts.
    """
    table = refuse_unfit_key(transaction.cursor, target, upsert, columns)
    forms = {name: text_form(table[name].type_name) for name in upsert.key}
    transaction.keep_key(target.name, str(target), forms)


def refuse_unfit_columns(types: Mapping[str, str], upsert: Upsert) -> None:
    """Refuse rows of columns with these types, if they can't be upserted so.

    Raises:
        InvalidSettings: a column lacks that the upsert names, or has an unfit type or name.
    """
    if missing := [name for name in upsert.names if name not in types]:
        raise UpsertColumnsMissing(missing=tuple(missing), columns=tuple(types))
    if reserved := [name for name in types if name.startswith(_OWN)]:
        raise UpsertColumnsReserved(prefix=_OWN, columns=tuple(reserved))
    if upsert.deleted and types[upsert.deleted] != "boolean":
        raise DeletedIsNoBoolean(column=upsert.deleted, postgres_type=types[upsert.deleted])


def refuse_unfit_types(target: Target, table: Mapping[str, TableColumn], upsert: Upsert) -> None:
    """Refuse a table whose columns can't tell rows apart, or order them.

    Raises:
        InvalidSettings: equal values of a column may have different texts, or have no order.
    """
    types = {name: own.type_name for name, own in table.items()}
    refuse_unfit_key_types(str(target), types, upsert.key)
    order = upsert.order_by
    if order and not types[order].startswith(_ORDERS):
        raise ColumnTypeUnfit(
            setting="order_by",
            column=order,
            target=str(target),
            postgres_type=types[order],
            allowed="an integer, a decimal, a date, a timestamp or text",
        )


def refuse_unfit_key_types(target: str, types: Mapping[str, str], key: Sequence[str]) -> None:
    """Refuse a key whose equal values may have different texts; `types` are those of all columns.

    Raises:
        InvalidSettings: names the first such column.
    """
    for name in key:
        if not types[name].startswith(_KEYS):
            raise ColumnTypeUnfit(
                setting="key",
                column=name,
                target=target,
                postgres_type=types[name],
                allowed="a number, text, date, timestamp, uuid or bytea, whose equal values have"
                " one text",
            )


def refuse_without_index(cursor: Cursor, target: Target, key: tuple[str, ...]) -> None:
    """Refuse a table in which no row is found by its key.

    Raises:
        SchemaMismatch: it has no unique index on exactly the key, or one that takes other texts
            for equal.
    """
    exact = [is_exact for of, is_exact in find_unique_keys(cursor, target.schema, target.table)
             if of == sorted(key)]  # fmt: skip
    if not exact:
        raise UniqueIndexMissing(target=str(target), key=key)
    if not all(exact):
        raise CollationNondeterministic(target=str(target), key=key)


def _refuse_inherited(cursor: Cursor, target: Target) -> None:
    parts = find_parts(cursor, target.schema, target.table)
    children = [str(Target(part.schema, part.table)) for part in parts if not part.is_partition]
    if children:
        raise TargetIsInherited(target=str(target), children=tuple(children))


def _refuse_missing_rights(cursor: Cursor, target: Target) -> None:
    rights = find_table_rights(cursor, target.schema, target.table)
    asked = {"SELECT": rights.select, "UPDATE": rights.update, "DELETE": rights.delete}
    if missing := [name for name, granted in asked.items() if not granted]:
        user = find_rights(cursor, target.schema).user
        grant = f"GRANT {', '.join(missing)} ON {target} TO {quoted(user)};"
        raise TargetRightMissing(target=str(target), user=user, action="upsert into", grant=grant)
