"""AvroDecoder: values in Avro with the id of their writer's schema, into the declared columns.

Each value is read by itself, so its company cannot change what becomes of it. Its schema comes from
the registry, once for each process.
"""

import json
import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidemark.decode.avro_bytes import invalid
from tidemark.decode.avro_reader import Read, Readers
from tidemark.decode.framing import SchemaId, unframed
from tidemark.decode.outcome import MAX_VALUE_BYTES, Decoded, Reason, Refusal, Rejected
from tidemark.decode.registry import Registry, Written
from tidemark.errors import InvalidSettings


class AvroDecoder:
    """Reads Avro into the columns of `schema`.

    A field that the writer does not have is null, one that is not declared is passed over.
    """

    def __init__(
        self,
        schema: pa.Schema,
        registry: Registry,
        *,
        max_bytes: int = MAX_VALUE_BYTES,
        takes_null: bool = False,
    ) -> None:
        self.schema = schema
        self._type = pa.struct(list(schema))
        self._registry = registry
        self._max_bytes = max_bytes
        self._takes_null = takes_null
        self._readers: dict[SchemaId, Read | Refusal] = {}

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """The rows of the good values, in order, and the others with their reasons.

        Raises:
            Unreachable: the registry does not answer.
        """
        rows: list[dict[str, Any]] = []
        kept: list[int] = []
        rejected: list[Rejected] = []
        for index, value in enumerate(values):
            try:
                rows.append(self._row(value))
                kept.append(index)
            except Refusal as refusal:
                rejected.append(refusal.of(index))
        self._forget_unknown()
        batch = pa.RecordBatch.from_pylist(rows, self.schema)
        return Decoded(batch, pa.array(kept, pa.int64()), rejected)

    def _row(self, value: bytes | None) -> dict[str, Any]:
        if value is None and self._takes_null:
            return {}
        if value is None:
            raise Refusal(Reason.NULL_VALUE, "the record has no value")
        if not value:
            raise Refusal(Reason.EMPTY_VALUE, "the value is empty")
        if len(value) > self._max_bytes:
            raise Refusal(Reason.TOO_LARGE, f"{len(value)} bytes, limit {self._max_bytes}")
        schema_id, at = unframed(value)
        return _datum(self._reader(schema_id), value, at)

    def _reader(self, schema_id: SchemaId) -> Read:
        if schema_id not in self._readers:
            try:
                self._readers[schema_id] = self._made(schema_id)
            except Refusal as refusal:
                self._readers[schema_id] = refusal
        found = self._readers[schema_id]
        if isinstance(found, Refusal):
            raise Refusal(found.reason, f"schema {schema_id}: {found.detail}")
        return found

    def _made(self, schema_id: SchemaId) -> Read:
        schema, named = parsed(self._registry.schema(schema_id))
        return Readers(named).reader(schema, self._type)

    def _forget_unknown(self) -> None:
        """What the registry did not know, it is asked once a block: it may learn."""
        unknown = [
            schema_id
            for schema_id, found in self._readers.items()
            if isinstance(found, Refusal) and found.reason is Reason.UNKNOWN_SCHEMA
        ]
        for schema_id in unknown:
            del self._readers[schema_id]


def parsed(written: Written) -> tuple[Any, dict[str, Any]]:
    """A schema as fastavro's parser gives it, and every type that has a name, by its full name.

    Raises:
        Refusal: it is no schema of Avro.
        InvalidSettings: fastavro is not installed.
    """
    try:
        from fastavro.schema import parse_schema
    except ImportError as error:
        raise InvalidSettings(
            f"format avro needs packages that are missing ({error}): install tidemark[registry]"
        ) from error
    if written.kind != "AVRO":
        raise Refusal(Reason.OTHER_SCHEMA, f"the schema is of the kind {written.kind}")
    named: dict[str, Any] = {}
    try:
        for one in _in_order(written):
            schema = parse_schema(json.loads(one.text), named_schemas=named)
    except Exception as error:
        raise Refusal(Reason.OTHER_SCHEMA, f"{type(error).__name__}: {error}") from error
    return schema, named


def _in_order(written: Written) -> list[Written]:
    """What a schema refers to, each once and first, then the schema itself."""
    found: dict[Written, None] = {}
    for one in written.references:
        found |= dict.fromkeys(_in_order(one))
    return [*found, written]


def _datum(read: Read, value: bytes, at: int) -> dict[str, Any]:
    try:
        found, end = read(value, at)
    except (IndexError, struct.error):
        raise invalid("the value ends too early") from None
    if end != len(value):
        raise Refusal(Reason.TRAILING_DATA, f"{len(value) - end} bytes after the datum")
    if found is None:
        raise Refusal(Reason.WRONG_TYPE, "the value is Avro's null")
    row: dict[str, Any] = found
    return row
