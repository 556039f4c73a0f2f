"""COPY BINARY of one batch after another: one encoded batch is in memory at a time."""

from collections.abc import Collection, Iterator
from typing import NoReturn

import pgpq.encoders
import pgpq.schema
import psycopg2
import psycopg2.errorcodes
import psycopg2.errors
import pyarrow as pa
from pgpq import ArrowToPostgresBinaryEncoder
from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.postgres.cases import StagingDiscarded
from tidemark.staging.column import KEYS
from tidemark.staging.row_errors import CopyFellShort, ValueUnstorable

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
