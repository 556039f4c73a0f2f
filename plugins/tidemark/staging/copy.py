"""Stage rows and dead letters on an executor, keyed by member and task attempt."""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import msgspec
import psycopg2
import pyarrow as pa
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor

from tidemark.model.batch import DeadLetter, Staging
from tidemark.staging.column import Column
from tidemark.staging.columns import columns_of
from tidemark.staging.nested import json_text
from tidemark.staging.row_errors import DateHasNoJson
from tidemark.staging.stream import CopyStream

_LETTERS_A_BATCH = 1000
_LETTER_FIELDS = pa.schema(
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
    cursor: Cursor, staging: Staging, member: int, attempt: int, letters: Iterable[DeadLetter]
) -> int:
    r"""Stage `letters` under (member, attempt) in the caller's transaction; return their count.

    Keys and values are stored byte for byte. Headers become a JSON array of
    {"key": text, "value": base64 or null}, with "key_base64" where the text is not exactly the
    key's bytes. In texts a NUL is written `\x00` and a lone surrogate `\ud800`, because Postgres
    can store neither.

    Raises:
        StagingLost: the staging table is gone, or took fewer letters than were sent.
    """
    stream = CopyStream(_LETTER_FIELDS, member=member, attempt=attempt, documents={"headers"})
    table = staging.schema, staging.dead_letters
    try:
        return sum(
            stream.copy_into(cursor, *table, _letter_arrays(some)) for some in _chunks(letters)
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


def _chunks(letters: Iterable[DeadLetter]) -> Iterator[list[DeadLetter]]:
    remaining = iter(letters)
    while some := list(islice(remaining, _LETTERS_A_BATCH)):
        yield some


def _letter_arrays(letters: list[DeadLetter]) -> list[pa.Array]:
    cells = zip(*map(_cells, letters), strict=True)
    return [
        pa.array(column, kind) for column, kind in zip(cells, _LETTER_FIELDS.types, strict=True)
    ]


def _cells(letter: DeadLetter) -> tuple[object, ...]:
    where = (letter.topic, letter.partition, letter.offset, letter.timestamp_ms)
    why = (_storable(letter.reason), _storable(letter.detail))
    size = letter.hash, letter.whole_bytes
    return *where, letter.key, letter.value, _headers_json(letter), *why, *size


def _headers_json(letter: DeadLetter) -> str | None:
    if letter.headers is None:
        return None
    headers = [
        _key_json(key) | {"value": None if value is None else b64encode(value).decode()}
        for key, value in letter.headers
    ]
    return msgspec.json.encode(headers).decode()


def _key_json(key: str | bytes) -> dict[str, str | None]:
    """The key as text; with its bytes as well where the text is not exactly them."""
    raw = key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key
    text = _storable(raw.decode("utf-8", "backslashreplace"))
    exact = {} if text.encode() == raw else {"key_base64": b64encode(raw).decode()}
    return {"key": text, **exact}


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", r"\x00")
