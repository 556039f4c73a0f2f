"""Rows of a table in Avro: a schema made of its columns, and values behind the schema's id.

Each field is a union with null, which is its default: so a column may come, go, or lose its NOT
NULL, and the schema stays compatible with those before it.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidemark.encode import avro_values
from tidemark.encode.avro_values import Encode
from tidemark.encode.errors import ColumnNotOfAvro, JsonTooDeep, ValueNotOfAvro

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMERIC = re.compile(r"numeric\(([0-9]+),([0-9]+)\)")
_PRECISION = re.compile(r"\([0-9]+\)")

_PLAIN: dict[str, tuple[Any, Encode]] = {
    "boolean": ("boolean", avro_values.boolean),
    "smallint": ("int", avro_values.INTEGERS[16]),
    "integer": ("int", avro_values.INTEGERS[32]),
    "bigint": ("long", avro_values.INTEGERS[64]),
    "real": ("float", partial(avro_values.real, "<f")),
    "double precision": ("double", partial(avro_values.real, "<d")),
    "bytea": ("bytes", avro_values.binary),
    "date": ({"type": "int", "logicalType": "date"}, avro_values.day),
    "timestamp without time zone": (
        {"type": "long", "logicalType": "local-timestamp-micros"},
        avro_values.moment,
    ),
    "timestamp with time zone": (
        {"type": "long", "logicalType": "timestamp-micros"},
        avro_values.moment,
    ),
    "uuid": ({"type": "string", "logicalType": "uuid"}, avro_values.text),
    "json": ("string", avro_values.document),
    "jsonb": ("string", avro_values.document),
}
"""What Avro's type is of Postgres' types by their names, and how a value is written."""


@dataclass(frozen=True, slots=True)
class AvroRows:
    """How the rows of a table are written."""

    text: str
    """The schema, as it is registered."""
    fields: Sequence[tuple[str, Encode]]

    @classmethod
    def of(cls, columns: Sequence[tuple[str, str]]) -> "AvroRows":
        """For columns by their names and types.

        Raises:
            Refused: Avro allows no field of such a name.
        """
        for name, _ in columns:
            if not _NAME.fullmatch(name):
                raise ColumnNotOfAvro(column=name)
        types = [(name, *_type(kind)) for name, kind in columns]
        fields = [
            {"name": name, "type": ["null", avro], "default": None} for name, avro, _ in types
        ]
        schema = {"type": "record", "name": "Row", "namespace": "tidemark", "fields": fields}
        encoders = [(name, avro_values.nullable(encode)) for name, _, encode in types]
        return cls(json.dumps(schema), encoders)

    def encoded(self, schema_id: int, row: bytes) -> bytes:
        """A row behind the schema's id, of its JSON; a column that this does not have is null.

        Raises:
            Refused: a type of Avro can't hold a value; the text names its column.
        """
        found = _loaded(row)
        parts = [b"\x00", schema_id.to_bytes(4)]
        for name, encode in self.fields:
            try:
                parts.append(encode(found.get(name)))
            except (ValueError, TypeError, OverflowError, RecursionError) as error:
                begins = str(found[name])[:40]
                raise ValueNotOfAvro(column=name, value=begins, cause=str(error)) from error
        return b"".join(parts)


def _loaded(row: bytes) -> Any:
    try:
        return avro_values.loaded(row)
    except RecursionError as error:
        raise JsonTooDeep(cause=str(error)) from error


def _type(kind: str) -> tuple[Any, Encode]:
    """Avro's type of one of Postgres', and how its values are written."""
    if kind.endswith("[]"):
        items, encode = _type(kind.removesuffix("[]"))
        return {"type": "array", "items": ["null", items]}, avro_values.array(encode)
    if found := _NUMERIC.fullmatch(kind):
        precision, scale = int(found[1]), int(found[2])
        if scale <= precision:
            logical = {"logicalType": "decimal", "precision": precision, "scale": scale}
            return {"type": "bytes", **logical}, partial(avro_values.decimal, precision, scale)
    return _PLAIN.get(_PRECISION.sub("", kind), ("string", avro_values.text))
