"""RecordDecoder: records into rows, by their values, and by their keys where asked.

The decoder is one of Tidemark's, or a class of the user's own by its name, whose answers are
believed only as far as they can be checked.
"""

import importlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import Message

from tidemark.decode.formats import FORMATS
from tidemark.decode.framing import KEY, VALUE, HeaderIds, decoded
from tidemark.decode.port import (
    MAX_DETAIL,
    Decoded,
    Decoder,
    Decoding,
    IsolatingDecoder,
    Reason,
    Refusal,
    Rejected,
)
from tidemark.errors import TidemarkError
from tidemark.kafka.headers import HeadersOf
from tidemark.settings.decode import KEY_PREFIX
from tidemark.settings.field_types import check_names
from tidemark.settings.format import Format, Framing
from tidemark.spark._cause import cause
from tidemark.spark.errors import OwnDecoderColumnsUnfit, OwnDecoderNotMade, OwnDecoderWrong
from tidemark.spark.record_keys import without_untold

_REASON = re.compile(r"[A-Z][A-Z0-9_]{0,39}")


class GuardedDecoder:
    """Each value is a row or rejected, once; else the job fails and nothing is visible."""

    def __init__(self, own: Decoder, schema: pa.Schema, name: str) -> None:
        self.schema = schema
        self._own = own
        self._name = name

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """What the user's decoder makes of the values.

        Raises:
            JobFailed: it raises, or its answer is not one row or rejection for each value.
        """
        try:
            return self._believed(self._own.decode(values), len(values))
        except TidemarkError:
            raise
        except Exception as error:
            raise self._wrong(f"raised: {cause(error)}") from None

    def _believed(self, found: Any, count: int) -> Decoded:
        if not isinstance(found, Decoded):
            raise self._wrong(f"returned {_kind(found)} in place of Decoded")
        kept, rejected = self._indices(found.kept), [self._checked(one) for one in found.rejected]
        self._refuse_rows(found.rows, len(kept))
        refused = [one.index for one in rejected]
        if sorted([*kept, *refused]) != list(range(count)):
            raise self._wrong(
                f"was given {count} values and named {len(kept)} as rows and {len(refused)} as"
                " rejected: each must be named once, by its index"
            )
        if kept != sorted(kept):
            raise self._wrong("gave rows in another order than their values")
        rejected.sort(key=lambda one: one.index)
        return Decoded(found.rows, pa.array(kept, pa.int64()), rejected)

    def _refuse_rows(self, rows: Any, kept: int) -> None:
        if not isinstance(rows, pa.RecordBatch):
            raise self._wrong(f"returned rows as {_kind(rows)}, not as a RecordBatch")
        if not rows.schema.equals(self.schema):
            raise self._wrong(
                f"returned the columns\n{rows.schema}\nbut its schema declares\n{self.schema}"
            )
        if rows.num_rows != kept:
            raise self._wrong(f"returned {rows.num_rows} rows and named {kept} values as kept")
        try:
            rows.validate(full=True)
        except pa.ArrowException as error:
            raise self._wrong(f"returned rows that Arrow finds invalid: {error}") from None

    def _indices(self, kept: Any) -> list[int]:
        indices = kept.to_pylist() if isinstance(kept, pa.Array) else list(kept)
        if not all(type(index) is int for index in indices):
            raise self._wrong("named kept values by something else than whole numbers")
        return indices

    def _checked(self, one: Any) -> Rejected:
        """The rejection, in words that the ledger can keep."""
        if not isinstance(one, Rejected) or type(one.index) is not int:
            raise self._wrong(f"rejected by {_kind(one)}, not by Rejected with an index")
        if not _REASON.fullmatch(str(one.reason)):
            raise self._wrong(f"rejected for {one.reason!r}: a reason is like WRONG_TYPE")
        detail = str(one.detail).encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
        return Rejected(one.index, one.reason, detail[:MAX_DETAIL])

    def _wrong(self, fault: str) -> OwnDecoderWrong:
        return OwnDecoderWrong(decoder=self._name, fault=fault)


def _kind(found: object) -> str:
    return type(found).__name__


def decoder_of(decoding: Decoding) -> Decoder:
    """The decoder of this format.

    Raises:
        InvalidSettings: there is no such class, or it can't be made, or has no usable columns.
    """
    if made := FORMATS.get(decoding.format):
        return IsolatingDecoder(made(decoding))
    try:
        own = _class(decoding.format)(decoding.declared, **decoding.options)
        schema = own.schema
    except Exception as error:
        raise OwnDecoderNotMade(decoder=decoding.format, cause=cause(error)) from None
    _refuse_columns(decoding.format, schema)
    return GuardedDecoder(own, schema, decoding.format)


def _class(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def _refuse_columns(name: str, schema: Any) -> None:
    if not isinstance(schema, pa.Schema) or not len(schema):
        raise OwnDecoderColumnsUnfit(
            decoder=name, fault="its schema must be a pyarrow.Schema with columns"
        )
    check_names(schema.names)
    if never_null := [field.name for field in schema if not field.nullable]:
        fault = f"its columns {', '.join(never_null)} are not nullable: every one may be null"
        raise OwnDecoderColumnsUnfit(decoder=name, fault=fault)


class RecordDecoder:
    """The decoder of a pipeline; the columns of its keys stand behind those of its values."""

    def __init__(self, decoding: Decoding) -> None:
        """Make it without the network.

        Raises:
            InvalidSettings: it can't be made, or a column of keys has the name of another.
        """
        self._values = _Part(decoding, Message.value, VALUE)
        self._keys = _Part(decoding.key, Message.key, KEY) if decoding.key else None
        of_keys = list(self._keys.schema) if self._keys else []
        named = [field.with_name(f"{KEY_PREFIX}{field.name}") for field in of_keys]
        self.schema = pa.schema([*self._values.schema, *named])
        self._old_key = decoding.old_key if decoding.old_key and decoding.old_key.is_key else None
        self._columns = decoding.declared.names
        check_names(self.schema.names)

    def decode(self, records: list[Message], headers_of: HeadersOf) -> Decoded:
        """The rows of the good records, and the others with their reasons."""
        found = self._values.decode(records, headers_of)
        if self._old_key is not None:
            found = without_untold(found, records, self._old_key, self._columns)
        if self._keys is None:
            return found
        kept = found.kept.to_pylist()
        keys = self._keys.decode([records[index] for index in kept], headers_of)
        rows = found.rows.take(keys.kept)
        columns = [*rows.columns, *keys.rows.columns]
        of_keys = {  # once, where a record has two rows
            kept[one.index]: Rejected(
                kept[one.index], one.reason, f"key: {one.detail}"[:MAX_DETAIL]
            )
            for one in keys.rejected
        }
        rejected = [*found.rejected, *of_keys.values()]
        rejected.sort(key=lambda one: one.index)
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return Decoded(batch, found.kept.take(keys.kept), rejected)


class _Part:
    """The decoder of values, or of keys."""

    def __init__(self, decoding: Decoding, part: Callable[[Message], Any], header: str) -> None:
        self._decoder = decoder_of(decoding)
        self._part = part
        self._ids: HeaderIds | None = None
        if decoding.framing == Framing.headers:
            self._ids = HeaderIds(header, has_path=decoding.format == Format.protobuf)
        self.schema = self._decoder.schema

    def decode(self, records: list[Message], headers_of: HeadersOf) -> Decoded:
        if self._ids is None:
            return self._decoder.decode(list(map(self._part, records)))
        return decoded(self._decoder, [self._framed(one, headers_of) for one in records])

    def _framed(self, record: Message, headers_of: HeadersOf) -> bytes | Refusal | None:
        headers = headers_of(record)
        if headers is None:
            return Refusal(Reason.NOT_FRAMED, "the Kafka client can't return the record's headers")
        part: bytes | None = self._part(record)
        return self._ids.framed(part, headers) if self._ids else part
