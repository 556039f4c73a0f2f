"""The names in the statements of an upsert, and of taking it back."""

from collections.abc import Iterable, Sequence

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.model.batch import ONLY, Batch
from tidemark.model.upsert import Upsert
from tidemark.postgres.session import configure
from tidemark.staging.catalog import TableColumn
from tidemark.staging.column import BATCH_SEQ, Column
from tidemark.staging.fit import parsed
from tidemark.staging.keyed import stored
from tidemark.staging.move import of_winners, staged_value
from tidemark.staging.target import Target
from tidemark.staging.upsert_sql import (
    DELETED_IS_NEWER,
    IS_BEST,
    IS_GONE,
    SPLIT,
    STAGED,
    STORED_IS_NEWER,
    TIED,
    TIED_IN_PARTITION,
)

_TEXTS = {
    "timezone": "UTC",
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
}

Names = dict[str, sql.Composable]


def exact_texts(cursor: Cursor) -> None:
    """To the end of the transaction values become texts, and texts values, without a loss."""
    configure(cursor, _TEXTS, is_local=True)


def names_of(
    batch: Batch,
    target: Target,
    columns: Sequence[Column],
    upsert: Upsert,
    table: Sequence[TableColumn],
    winners: Sequence[tuple[int, int]],
) -> Names:
    """What the statements name; literals, for with parameters a % in a name were a placeholder."""
    names = [column.name for column in stored(columns, upsert)]
    types = {own.name: own.type_name for own in table}
    found: Names = {
        "last": _own(batch, target, "last"),
        "steps": _own(batch, target, "steps"),
        "rows": sql.Identifier(batch.staging.schema, batch.staging.of_target(target.name).rows),
        "region": sql.Literal(batch.region),
        "seq": sql.Literal(batch.seq),
        "names": commas(map(sql.Identifier, names)),
        "values": commas(
            sql.SQL("{} AS {}").format(staged_value(column), sql.Identifier(column.name))
            for column in parsed(columns, table)
        ),
        "deleted": sql.Identifier(upsert.deleted) if upsert.deleted else sql.SQL("false"),
        "set": excluded((*names, BATCH_SEQ), upsert.key),
        **of_target(target, upsert.key, table),
        **_of_order(upsert, types),
    }
    found["is_gone"] = IS_GONE.format(**found)
    return of_chosen(found, of_winners(winners))


def _own(batch: Batch, target: Target, of: str) -> sql.Identifier:
    """A table of the publish: targets that are published together have one each."""
    name = f"{batch.region}_{batch.seq}_{of}"
    whole = name if target.name == ONLY else f"{name}.{target.name}"
    return sql.Identifier(batch.staging.schema, whole)


def of_chosen(names: Names, chosen: sql.Composable) -> Names:
    """The same for other staged rows."""
    named = {**names, "chosen": chosen}
    return {**named, "staged": STAGED.format(**named)}


def of_target(target: Target, key: Sequence[str], table: Sequence[TableColumn]) -> Names:
    """The names of the target, of its key and of all columns that hold something of their own."""
    kept = [own.name for own in table if not own.generated]
    return {
        "target": target.identifier,
        "name": sql.Literal(target.name),
        "batch_seq": sql.Identifier(BATCH_SEQ),
        "key": commas(map(sql.Identifier, key)),
        "match": sql.SQL(" AND ").join(
            sql.SQL("l.{0} = t.{0}").format(sql.Identifier(name)) for name in key
        ),
        "key_texts": key_texts("l", key),
        "key_text": key_text("l", key),
        "key_is_null": sql.SQL("NOT ({} IS NOT NULL)").format(_row("l", key)),
        "all_names": sql.Literal(kept),
        "all_texts": commas(sql.SQL("t.{}::text").format(sql.Identifier(name)) for name in kept),
    }


def key_texts(of: str, key: Sequence[str]) -> sql.Composable:
    """The key of a row as the ledger keeps it."""
    return sql.SQL("ARRAY[{}]").format(key_text(of, key))


def key_text(of: str, key: Sequence[str]) -> sql.Composable:
    """The same in a list: it sorts alike."""
    return commas(sql.SQL('({}::text) COLLATE "C"').format(sql.Identifier(of, n)) for n in key)


def excluded(names: Iterable[str], key: Sequence[str]) -> sql.Composable:
    """The assignments of ON CONFLICT: all columns but the key."""
    others = (sql.Identifier(name) for name in names if name not in key)
    return commas(sql.SQL("{0} = EXCLUDED.{0}").format(name) for name in others)


def commas(parts: Iterable[sql.Composable]) -> sql.Composed:
    """The parts in a list."""
    return sql.SQL(", ").join(parts)


def _bytes(kind: str) -> sql.SQL:
    return sql.SQL(' COLLATE "C"' if kind.startswith(("text", "character")) else "")


def _row(of: str, names: Sequence[str]) -> sql.Composable:
    return sql.SQL("ROW({})").format(commas(sql.Identifier(of, name) for name in names))


def _of_order(upsert: Upsert, types: dict[str, str]) -> Names:
    last = sql.SQL('kafka_topic COLLATE "C" DESC, kafka_partition DESC, kafka_offset DESC')
    if upsert.order_by is None:
        return {
            "best_first": last,
            "is_best": sql.SQL("true"),
            "is_tied": TIED_IN_PARTITION,
            "is_split": SPLIT,
            "order_is_null": sql.SQL("false"),
            "order_text": sql.SQL("NULL"),
        }
    order, kind = sql.Identifier(upsert.order_by), types[upsert.order_by]
    by_bytes = _bytes(kind)
    compared = {"order": order, "bytes": by_bytes, "order_type": sql.SQL(kind)}
    return {
        "stored_is_newer": STORED_IS_NEWER.format(**compared),
        "deleted_is_newer": DELETED_IS_NEWER.format(**compared),
        "best_first": sql.SQL("{}{} DESC NULLS FIRST, {}").format(order, by_bytes, last),
        "is_best": IS_BEST.format(**compared),
        "is_tied": TIED.format(**compared),
        "is_split": sql.SQL("false"),
        "order_is_null": sql.SQL("l.{} IS NULL").format(order),
        "order_text": sql.SQL("l.{}::text").format(order),
    }
