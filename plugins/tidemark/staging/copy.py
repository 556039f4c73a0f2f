"""Stage rows and dead letters on an executor, keyed by member and task attempt.

COPY BINARY takes one batch after another: one encoded batch is in memory at a time. A batch that
Postgres can't store is halved, down to single rows: the record of one that is refused alone is
named, or left out.
"""

from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NoReturn

import msgspec
import pgpq.encoders
import pgpq.schema
import psycopg2
import psycopg2.errors
import pyarrow as pa
from pgpq import ArrowToPostgresBinaryEncoder
from psycopg2 import errorcodes, extensions, sql

from tidemark.deadline import Deadline
from tidemark.model.batch import DeadLetter, Staging
from tidemark.model.offsets import TopicPartition
from tidemark.postgres.errors import StagingDiscarded, condition
from tidemark.postgres.fate import Fate, fate
from tidemark.postgres.session import Connection, Cursor, encoding_of
from tidemark.staging._json_texts import json_text
from tidemark.staging._row_errors import CopyFellShort, DateHasNoJson, ValueUnstorable
from tidemark.staging.column import COORDINATES, KEYS, Column
from tidemark.staging.columns import columns_of

_PIECE_BYTES = 64 << 20
MOST_ROW_BYTES = (1 << 30) - 2
"""The server takes no larger message; one within has a piece of rows, or a row."""


class CopyStream:
    """Rows for COPY, keyed by (member, attempt).

    `documents` names the `fields` that hold JSON text. Each batch is a COPY of its own, and is
    fetched before that begins. So, if the process hangs, its session is idle or in a short
    statement, and its time-outs end it.
    """

    def __init__(
        self, fields: pa.Schema, *, member: int, attempt: int, documents: Collection[str] = ()
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
        self._failure = None
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
        if fate(error) is Fate.row:
            # not chained: the server's CONTEXT quotes the row
            raise _unstorable(error, self._schema.names) from None
        raise error

    def _encoded(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        encoder = _encoder(self._schema, self._documents)
        yield encoder.write_header()
        for piece in map(encoder.write_batch, _pieces(batch)):
            yield _sent(piece)
        yield _sent(encoder.finish())


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
        condition=condition(code),
        # of a limit alone the server's text quotes nothing
        limit=error.diag.message_primary if code.startswith("54") else None,
    )


def _sent(piece: bytes) -> bytes:
    if (size := len(piece)) <= MOST_ROW_BYTES:
        return piece
    code = errorcodes.PROGRAM_LIMIT_EXCEEDED
    limit = f"{size} bytes of a row, maximum {MOST_ROW_BYTES}"
    raise ValueUnstorable(column=None, sqlstate=code, condition=condition(code), limit=limit)


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
    leaves_out: bool = False,
) -> dict[str, int]:
    """Stage all rows of `batches` under (member, attempt), commit, and return their numbers.

    Rows are told by their target. The connection is the writer's own and idle; the call is one
    transaction, after a refusal that ends it a second to name the record. Batches have the columns
    of `schemas` in their order and are fetched one at a time. An exception of the iterator passes
    through unchanged.

    If it crashes or raises: nothing of the attempt is staged, unless only the answer to COMMIT was
    lost. Then its rows stay until the tables are dropped, but no contribution names the attempt.

    With `leaves_out` a row that Postgres can't store is staged as one that has its record's
    coordinates alone, and what refused it lies with the dead letters under (member, -1 - attempt),
    its target in the place of a reason: the publish leaves the record out of all targets.

    Raises:
        SchemaMismatch: there are columns that can't be written; no batch was fetched.
        TargetRefused: Postgres can't hold a value, such as a NUL in a text; names its record.
        StagingLost: the staging table is gone, or took fewer rows than were sent.
    """
    copies = {
        name: _RowCopy(
            staging.of_target(name),
            columns_of(schema),
            target=name,
            member=member,
            attempt=attempt,
            leaves_out=leaves_out,
        )
        for name, schema in schemas.items()
    }
    copied = dict.fromkeys(copies, 0)
    with connection, connection.cursor() as cursor:
        shared = _SharedSavepoint(cursor)
        for parts in batches:
            for name, batch in parts.items():
                if leaves_out:
                    shared.stage(copies[name], batch)
                else:
                    _stage_or_name(cursor, copies[name], batch)
                copied[name] += batch.num_rows
        shared.close()
        if left_out := [one for copy in copies.values() for one in copy.left_out]:
            copy_dead_letters(cursor, staging, member, -1 - attempt, left_out)
    return copied


ISOLATING_SECONDS = 300.0
"""Limit of the search for refused rows in one attempt, as of that in a publish."""

_Refusal = ValueUnstorable | DateHasNoJson
_KEPT_BYTES = 32 << 20
_MOST_SAVEPOINTS = 32
"""If a transaction has more than 64 subtransactions that wrote, the snapshots of all sessions look
into pg_subtrans (PGPROC_MAX_CACHED_SUBXIDS). One that is rolled back no longer counts."""


class _RowCopy:
    """The rows of one attempt for one target."""

    def __init__(
        self,
        staging: Staging,
        columns: tuple[Column, ...],
        *,
        target: str,
        member: int,
        attempt: int,
        leaves_out: bool,
    ) -> None:
        self._staging = staging
        self._columns = columns
        self._target = target
        self._leaves_out = leaves_out
        self._deadline = Deadline(ISOLATING_SECONDS)
        self._stream = CopyStream(
            pa.schema([(column.staged_name, column.copied_type) for column in columns]),
            member=member,
            attempt=attempt,
            documents={column.staged_name for column in columns if column.is_json},
        )
        self.left_out: list[DeadLetter] = []
        """A record of each row that was refused."""

    def stage(self, cursor: Cursor, batch: pa.RecordBatch) -> None:
        """Stage all rows; if one is refused, the transaction or its savepoint is to be undone."""
        arrays = _arrays(batch, self._columns)
        try:
            self._stream.copy_into(cursor, self._staging.schema, self._staging.rows, arrays)
        except psycopg2.Error as error:
            self._stream.explain(error)

    def storable(self, cursor: Cursor, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """The rows, those that are left out by their coordinates alone; nothing is staged.

        All is tried after the savepoint, and rolled back to it.

        Raises:
            TargetRefused: a row is refused and not left out.
        """
        pieces, slices = [], [batch]
        while slices:
            some = slices.pop()
            try:
                self.stage(cursor, some)
            except (ValueUnstorable, DateHasNoJson) as error:
                _undo(cursor)
                if some.num_rows > 1:
                    middle = some.num_rows // 2
                    slices += [some.slice(middle), some.slice(0, middle)]  # taken from the end
                else:
                    pieces.append(self._refused(cursor, some, error))
            else:
                _undo(cursor)
                pieces.append(some)
        return pieces

    def _refused(self, cursor: Cursor, row: pa.RecordBatch, error: _Refusal) -> pa.RecordBatch:
        values = row.select([name for name in COORDINATES if name in row.schema.names]).to_pylist()
        where = [values[0].get(name) for name in COORDINATES]
        encoding = encoding_of(cursor) if isinstance(error, ValueUnstorable) else None
        named = _named(error, where, encoding)
        if not self._leaves_out or None in where or self._deadline.is_past:
            raise named from None
        self.left_out.append(_left_out(where, self._target, named.guard))
        return _bare(row)


def _undo(cursor: Cursor) -> None:
    cursor.execute("ROLLBACK TO SAVEPOINT rows")


def _stage_or_name(cursor: Cursor, copy: _RowCopy, batch: pa.RecordBatch) -> None:
    """Without a savepoint: a refusal ends the attempt, and a new transaction finds its record."""
    try:
        copy.stage(cursor, batch)
    except (ValueUnstorable, DateHasNoJson):
        cursor.connection.rollback()
        cursor.execute("SAVEPOINT rows")
        copy.storable(cursor, batch)
        # what was staged before is gone, also if no row is refused alone
        raise


class _SharedSavepoint:
    """Batches since a savepoint: after a refusal they are staged again, without the refused rows.

    So many batches share a savepoint, as many as `_KEPT_BYTES` of memory hold. After
    `_MOST_SAVEPOINTS` each batch is tried and rolled back, then staged without a savepoint: twice
    the work, but neither memory nor subtransactions grow with the rows.
    """

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._batches: list[tuple[_RowCopy, pa.RecordBatch]] = []
        self._bytes = 0
        self._savepoints = 0
        self._is_staged = True
        """Whether the batches are staged already, so that no `close` has to."""

    def stage(self, copy: _RowCopy, batch: pa.RecordBatch) -> None:
        """Stage the rows, or keep them until `close` does.

        Raises:
            TargetRefused: a row is refused and has no coordinates, or the search takes too long.
        """
        if not self._batches:
            self._cursor.execute("SAVEPOINT rows")
        self._is_staged = self._is_staged and self._took(copy, batch)
        pieces = [batch] if self._is_staged else copy.storable(self._cursor, batch)
        self._batches += ((copy, piece) for piece in pieces)
        self._bytes += batch.nbytes
        if self._bytes >= _KEPT_BYTES:
            self.close()

    def close(self) -> None:
        """All that was kept is staged, and memory free."""
        if not self._batches:
            return
        self._cursor.execute("RELEASE SAVEPOINT rows")
        if self._is_staged:
            self._savepoints += 1
        else:
            for copy, piece in self._batches:
                copy.stage(self._cursor, piece)
        self._batches, self._bytes = [], 0
        self._is_staged = self._savepoints < _MOST_SAVEPOINTS

    def _took(self, copy: _RowCopy, batch: pa.RecordBatch) -> bool:
        try:
            copy.stage(self._cursor, batch)
        except (ValueUnstorable, DateHasNoJson):
            _undo(self._cursor)
            return False
        return True


def _named(error: _Refusal, where: list[Any], encoding: str | None) -> _Refusal:
    """The same error with the record, and the encoding where that is not UTF8."""
    topic, partition, offset = where
    more: dict[str, str] = {}
    if None not in where:
        more["record"] = f"{TopicPartition(topic, partition)}@{offset}"
    if encoding not in (None, "UTF8") and not getattr(error, "limit", None):
        more["encoding"] = str(encoding)
    return type(error)(**vars(error) | more)


def _left_out(where: list[Any], target: str, detail: str) -> DeadLetter:
    topic, partition, offset = where
    return DeadLetter(
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp_ms=None,
        key=None,
        value=None,
        headers=None,
        reason=target,
        detail=detail,
    )


def _bare(row: pa.RecordBatch) -> pa.RecordBatch:
    """A row with the coordinates of its record alone."""
    arrays = [
        values if field.name in COORDINATES else pa.nulls(1, field.type)
        for field, values in zip(row.schema, row.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=row.schema.names)


def copy_dead_letters(
    cursor: Cursor, staging: Staging, member: int, attempt: int, dead_letters: Iterable[DeadLetter]
) -> int:
    r"""Stage `dead_letters` under (member, attempt) in the caller's transaction; count them.

    Keys and values are stored byte for byte. Headers become a JSON array of
    {"key": text, "value": base64 or null}. In texts a NUL is written `\x00` and a lone surrogate
    `\ud800`, because Postgres can store neither; so is a letter that the database's encoding lacks.

    Raises:
        StagingLost: the staging table is gone, or took fewer letters than were sent.
    """
    stream = CopyStream(_DEAD_LETTER_FIELDS, member=member, attempt=attempt, documents={"headers"})
    table = staging.schema, staging.dead_letters
    try:
        storable = _storable_in(encoding_of(cursor))
        return sum(
            stream.copy_into(cursor, *table, _dead_letter_arrays(some, storable))
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


Storable = Callable[[str], str]
"""A text as the database can store it."""


def _dead_letter_arrays(dead_letters: list[DeadLetter], storable: Storable) -> list[pa.Array]:
    cells = zip(*(_cells(one, storable) for one in dead_letters), strict=True)
    return [
        pa.array(column, kind)
        for column, kind in zip(cells, _DEAD_LETTER_FIELDS.types, strict=True)
    ]


def _cells(dead_letter: DeadLetter, storable: Storable) -> tuple[object, ...]:
    where = (dead_letter.topic, dead_letter.partition, dead_letter.offset, dead_letter.timestamp_ms)
    why = (storable(dead_letter.reason), storable(dead_letter.detail))
    size = dead_letter.hash, dead_letter.whole_bytes
    headers = _headers_json(dead_letter, storable)
    return *where, dead_letter.key, dead_letter.value, headers, *why, *size


def _headers_json(dead_letter: DeadLetter, storable: Storable) -> str | None:
    if dead_letter.headers is None:
        return None
    headers = [
        {"key": storable(key), "value": None if value is None else b64encode(value).decode()}
        for key, value in dead_letter.headers
    ]
    return msgspec.json.encode(headers).decode()


def _storable_in(encoding: str) -> Storable:
    """What the encoding lacks is written as Python writes it: NULs and lone surrogates in any."""
    codec = extensions.encodings.get(encoding, "ascii")

    def storable(text: str) -> str:
        return text.encode(codec, "backslashreplace").decode(codec).replace("\0", r"\x00")

    return storable
