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
from tidemark.spark.errors import (
    AnswerPart,
    OwnDecoderColumnsDiffer,
    OwnDecoderHasNoColumns,
    OwnDecoderIndicesOdd,
    OwnDecoderMiscounted,
    OwnDecoderNotMade,
    OwnDecoderNotNullable,
    OwnDecoderRaised,
    OwnDecoderReasonOdd,
    OwnDecoderReordered,
    OwnDecoderReturnedOther,
    OwnDecoderRowsInvalid,
    OwnDecoderRowsMiscounted,
)

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
            raise OwnDecoderRaised(decoder=self._name, cause=cause(error)) from None

    def _believed(self, found: Any, count: int) -> Decoded:
        if not isinstance(found, Decoded):
            raise self._other("answer", found)
        kept, rejected = self._indices(found.kept), [self._checked(one) for one in found.rejected]
        self._refuse_rows(found.rows, len(kept))
        refused = [one.index for one in rejected]
        if sorted([*kept, *refused]) != list(range(count)):
            raise OwnDecoderMiscounted(
                decoder=self._name, given=count, kept=len(kept), rejected=len(refused)
            )
        if kept != sorted(kept):
            raise OwnDecoderReordered(decoder=self._name)
        rejected.sort(key=lambda one: one.index)
        return Decoded(found.rows, pa.array(kept, pa.int64()), rejected)

    def _refuse_rows(self, rows: Any, kept: int) -> None:
        if not isinstance(rows, pa.RecordBatch):
            raise self._other("rows", rows)
        if not rows.schema.equals(self.schema):
            raise OwnDecoderColumnsDiffer(
                decoder=self._name, returned=str(rows.schema), told=str(self.schema)
            )
        if rows.num_rows != kept:
            raise OwnDecoderRowsMiscounted(decoder=self._name, rows=rows.num_rows, kept=kept)
        try:
            rows.validate(full=True)
        except pa.ArrowException as error:
            raise OwnDecoderRowsInvalid(decoder=self._name, cause=str(error)) from None

    def _indices(self, kept: Any) -> list[int]:
        indices = kept.to_pylist() if isinstance(kept, pa.Array) else list(kept)
        if not all(type(index) is int for index in indices):
            raise OwnDecoderIndicesOdd(decoder=self._name)
        return indices

    def _checked(self, one: Any) -> Rejected:
        """The rejection, in words that the ledger can keep."""
        if not isinstance(one, Rejected) or type(one.index) is not int:
            raise self._other("rejection", one)
        if not _REASON.fullmatch(str(one.reason)):
            raise OwnDecoderReasonOdd(decoder=self._name, reason=repr(one.reason))
        detail = str(one.detail).encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
        return Rejected(one.index, one.reason, detail[:MAX_DETAIL])

    def _other(self, part: AnswerPart, found: Any) -> OwnDecoderReturnedOther:
        return OwnDecoderReturnedOther(decoder=self._name, part=part, returned=type(found).__name__)


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
        raise OwnDecoderHasNoColumns(decoder=name)
    check_names(schema.names)
    if never_null := tuple(field.name for field in schema if not field.nullable):
        raise OwnDecoderNotNullable(decoder=name, columns=never_null)


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
        check_names(self.schema.names)

    def decode(self, records: list[Message], headers_of: HeadersOf) -> Decoded:
        """The rows of the good records, and the others with their reasons."""
        found = self._values.decode(records, headers_of)
        if self._keys is None:
            return found
        kept = found.kept.to_pylist()
        keys = self._keys.decode([records[index] for index in kept], headers_of)
        rows = found.rows.take(keys.kept)
        columns = [*rows.columns, *keys.rows.columns]
        rejected = [
            *found.rejected,
            *(
                Rejected(kept[one.index], one.reason, f"key: {one.detail}"[:MAX_DETAIL])
                for one in keys.rejected
            ),
        ]
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
