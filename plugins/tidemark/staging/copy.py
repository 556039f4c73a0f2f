"""Stage rows and dead letters on an executor, keyed by member and task attempt.

COPY BINARY takes one batch after another: one encoded batch is in memory at a time.

Structs, maps and lists of them are staged as JSON text. A struct becomes an object with all fields,
also those that are null; a map becomes an object with texts as keys. Bytes become base64, dates and
timestamps ISO 8601 (UTC ends in Z), decimals numbers with all their digits. NaN and the infinities,
which JSON lacks, become the strings "NaN", "Infinity", "-Infinity".
"""

from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC
from itertools import islice
from typing import Any, NoReturn

import msgspec
import pgpq.encoders
import pgpq.schema
import psycopg2
import psycopg2.errorcodes
import psycopg2.errors
import pyarrow as pa
from pgpq import ArrowToPostgresBinaryEncoder
from psycopg2 import sql

from tidemark.model.batch import DeadLetter, Staging
from tidemark.model.plain import number
from tidemark.postgres.errors import StagingDiscarded
from tidemark.postgres.session import Connection, Cursor
from tidemark.staging._row_errors import CopyFellShort, DateHasNoJson, ValueUnstorable
from tidemark.staging.column import KEYS, Column
from tidemark.staging.columns import columns_of

_PIECE_BYTES = 64 << 20


class CopyStream:
    """Rows for COPY, keyed by (member, attempt).

    `documents` names the `fields` that hold JSON text. Each batch is a COPY of its own, and is
    fetched before that begins. So, if the process hangs, its session is idle or in a short
    statement, and its time-outs end it.
    """

    def __init__(
        self,
        fields: pa.Schema,
        *,
        member: int,
        attempt: int,
        documents: Collection[str] = (),
    ) -> None:
        self._schema = pa.schema([*((name, pa.int64()) for name in KEYS), *fields])
        self._documents = documents
        self._key = member, attempt
        self._chunks: Iterator[bytes] = iter(())
        self._failure: BaseException | None = None

    def read(self, size: int = -1) -> bytes:
        """Return the next encoded piece, whatever `size` is; empty at the end."""
        try:
            return next(self._chunks, b"")
        except BaseException as error:
            self._failure = error
            # psycopg2 sends this text to the server's log; the real text may quote data
            raise OSError("the rows to copy ended early") from None

    def copy_into(self, cursor: Cursor, schema: str, table: str, arrays: list[pa.Array]) -> int:
        """Copy one batch, the arrays of the fields; return its rows, which is the number sent."""
        batch = _keyed(arrays, self._schema, self._key)
        # an empty read would end the COPY, and pgpq buffers small batches
        self._chunks = filter(None, self._encoded(batch))
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(
            sql.Identifier(schema, table),
            sql.SQL(", ").join(map(sql.Identifier, self._schema.names)),
        )
        cursor.copy_expert(statement, self)  # type: ignore[arg-type]  # it never calls readline
        if cursor.rowcount != batch.num_rows:
            raise CopyFellShort(
                table=f"{schema}.{table}", sent=batch.num_rows, copied=cursor.rowcount
            )
        return int(batch.num_rows)

    def explain(self, error: psycopg2.Error) -> NoReturn:
        """Raise the real cause: what encoding raised, or `error` translated into Tidemark's."""
        if self._failure is not None:
            raise self._failure from self._failure.__cause__
        if isinstance(error, psycopg2.errors.UndefinedTable):
            raise StagingDiscarded from error
        if isinstance(error, psycopg2.DataError):
            # not chained: the server's CONTEXT quotes the row
            raise _unstorable(error, self._schema.names) from None
        raise error

    def _encoded(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        encoder = _encoder(self._schema, self._documents)
        yield encoder.write_header()
        yield from map(encoder.write_batch, _pieces(batch))
        yield encoder.finish()


def _encoder(schema: pa.Schema, documents: Collection[str]) -> ArrowToPostgresBinaryEncoder:
    encoders = {
        field.name: pgpq.encoders.StringEncoderBuilder.new_with_output(field, pgpq.schema.Jsonb())
        if field.name in documents
        else ArrowToPostgresBinaryEncoder.infer_encoder(field)
        for field in schema
    }
    return ArrowToPostgresBinaryEncoder.new_with_encoders(schema, encoders)


def _keyed(arrays: list[pa.Array], schema: pa.Schema, keys: tuple[int, int]) -> pa.RecordBatch:
    constants = [pa.repeat(pa.scalar(key, pa.int64()), len(arrays[0])) for key in keys]
    return pa.RecordBatch.from_arrays([*constants, *arrays], schema=schema)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Slice a large batch: an encoded piece is one message of libpq, which holds under 2 GiB."""
    step = max(1, batch.num_rows * _PIECE_BYTES // max(batch.nbytes, 1))
    return (batch.slice(start, step) for start in range(0, batch.num_rows, step))


def _unstorable(error: psycopg2.Error, names: list[str]) -> ValueUnstorable:
    code = error.pgcode or ""
    name = (error.diag.context or "").rpartition(", column ")[2]
    return ValueUnstorable(
        column=name if name in names else None,
        sqlstate=code,
        condition=psycopg2.errorcodes.lookup(code),
    )


Conversion = Callable[[Any], Any]
_ENCODER = msgspec.json.Encoder(decimal_format="number")


def json_text(array: pa.Array) -> pa.Array:
    """Return each value as JSON text; a null stays a null.

    Raises:
        ValueError: a date or timestamp lies outside the years 1 to 9999.
        OverflowError: the same.
    """
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.string())
    convert = _conversion(array.type) or _unchanged
    texts = [None if value is None else _ENCODER.encode(convert(value)) for value in _read(array)]
    return pa.array(texts, pa.binary()).cast(pa.string())


def _read(array: pa.Array) -> list[Any]:
    values: list[Any] = array.to_pylist()
    return values


def _conversion(kind: pa.DataType) -> Conversion | None:
    """The function that makes a value of this type valid in JSON; None if none is needed."""
    if pa.types.is_floating(kind):
        return number
    if pa.types.is_timestamp(kind) and kind.tz:
        return lambda value: value.astimezone(UTC)
    if pa.types.is_map(kind):
        keys = _conversion(kind.key_type) or _unchanged
        return _of_map(keys, _conversion(kind.item_type) or _unchanged)
    if pa.types.is_struct(kind):
        return _of_struct({field.name: _conversion(field.type) for field in kind})
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _of_list(_conversion(kind.value_type))
    return None


def _of_list(element: Conversion | None) -> Conversion | None:
    if element is None:
        return None
    return lambda values: [None if value is None else element(value) for value in values]


def _of_struct(fields: dict[str, Conversion | None]) -> Conversion | None:
    needed = {name: convert for name, convert in fields.items() if convert is not None}
    if not needed:
        return None

    def convert_fields(value: dict[str, Any]) -> dict[str, Any]:
        for name, convert in needed.items():
            if value[name] is not None:
                value[name] = convert(value[name])
        return value

    return convert_fields


def _of_map(key: Conversion, item: Conversion) -> Conversion:
    return lambda pairs: {
        _name(key(name)): None if value is None else item(value) for name, value in pairs
    }


def _name(key: Any) -> str:
    return key if isinstance(key, str) else _ENCODER.encode(key).decode().strip('"')


def _unchanged(value: Any) -> Any:
    return value


_DEAD_LETTERS_A_BATCH = 1000
_DEAD_LETTER_FIELDS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.string()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("hash", pa.binary()),
        ("whole_bytes", pa.int64()),
    ]
)


def copy_rows(
    connection: Connection,
    staging: Staging,
    batches: Iterable[Mapping[str, pa.RecordBatch]],
    schemas: Mapping[str, pa.Schema],
    *,
    member: int,
    attempt: int,
) -> dict[str, int]:
    """Stage all rows of `batches` under (member, attempt), commit, and return their numbers.

    Rows are told by their target. The connection is the writer's own and idle; the call is one
    transaction. Batches have the columns of `schemas` in their order and are fetched one at a time.
    An exception of the iterator passes through unchanged.

    If it crashes or raises: nothing of the attempt is staged, unless only the answer to COMMIT was
    lost. Then its rows stay until the tables are dropped, but no contribution names the attempt.

    Raises:
        SchemaMismatch: there are columns that can't be written; no batch was fetched.
        TargetRefused: Postgres can't hold a value, such as a NUL in a text.
        StagingLost: the staging table is gone, or took fewer rows than were sent.
    """
    copies = {
        name: _RowCopy(staging.of_target(name), columns_of(schema), member, attempt)
        for name, schema in schemas.items()
    }
    copied = dict.fromkeys(copies, 0)
    with connection, connection.cursor() as cursor:
        for parts in batches:
            for name, batch in parts.items():
                copied[name] += copies[name].copy(cursor, batch)
    return copied


class _RowCopy:
    """The rows of one attempt for one target."""

    def __init__(
        self, staging: Staging, columns: tuple[Column, ...], member: int, attempt: int
    ) -> None:
        self._staging = staging
        self._columns = columns
        self._stream = CopyStream(
            pa.schema([(column.staged_name, column.copied_type) for column in columns]),
            member=member,
            attempt=attempt,
            documents={column.staged_name for column in columns if column.is_json},
        )

    def copy(self, cursor: Cursor, batch: pa.RecordBatch) -> int:
        arrays = _arrays(batch, self._columns)
        try:
            return self._stream.copy_into(cursor, self._staging.schema, self._staging.rows, arrays)
        except psycopg2.Error as error:
            self._stream.explain(error)


def copy_dead_letters(
    cursor: Cursor, staging: Staging, member: int, attempt: int, dead_letters: Iterable[DeadLetter]
) -> int:
    r"""Stage `dead_letters` under (member, attempt) in the caller's transaction; count them.

    Keys and values are stored byte for byte. Headers become a JSON array of
    {"key": text, "value": base64 or null}. In texts a NUL is written `\x00` and a lone surrogate
    `\ud800`, because Postgres can store neither.

    Raises:
        StagingLost: the staging table is gone, or took fewer letters than were sent.
    """
    stream = CopyStream(_DEAD_LETTER_FIELDS, member=member, attempt=attempt, documents={"headers"})
    table = staging.schema, staging.dead_letters
    try:
        return sum(
            stream.copy_into(cursor, *table, _dead_letter_arrays(some))
            for some in _chunks(dead_letters)
        )
    except psycopg2.Error as error:
        stream.explain(error)


def _arrays(batch: pa.RecordBatch, columns: tuple[Column, ...]) -> list[pa.Array]:
    return [_array(values, column) for values, column in zip(batch.columns, columns, strict=True)]


def _array(values: pa.Array, column: Column) -> pa.Array:
    if not column.is_json:
        return values if values.type == column.arrow_type else values.cast(column.arrow_type)
    try:
        return json_text(values)
    except (OverflowError, ValueError):
        raise DateHasNoJson(column=column.name, arrow_type=str(column.arrow_type)) from None


def _chunks(dead_letters: Iterable[DeadLetter]) -> Iterator[list[DeadLetter]]:
    remaining = iter(dead_letters)
    while some := list(islice(remaining, _DEAD_LETTERS_A_BATCH)):
        yield some


def _dead_letter_arrays(dead_letters: list[DeadLetter]) -> list[pa.Array]:
    cells = zip(*map(_cells, dead_letters), strict=True)
    return [
        pa.array(column, kind)
        for column, kind in zip(cells, _DEAD_LETTER_FIELDS.types, strict=True)
    ]


def _cells(dead_letter: DeadLetter) -> tuple[object, ...]:
    where = (dead_letter.topic, dead_letter.partition, dead_letter.offset, dead_letter.timestamp_ms)
    why = (_storable(dead_letter.reason), _storable(dead_letter.detail))
    size = dead_letter.hash, dead_letter.whole_bytes
    return *where, dead_letter.key, dead_letter.value, _headers_json(dead_letter), *why, *size


def _headers_json(dead_letter: DeadLetter) -> str | None:
    if dead_letter.headers is None:
        return None
    headers = [
        {"key": _storable(key), "value": None if value is None else b64encode(value).decode()}
        for key, value in dead_letter.headers
    ]
    return msgspec.json.encode(headers).decode()


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", r"\x00")
