"""Reading Avro's types without parts: numbers, texts, bytes, enums, and what they stand for."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from tidemark.decode import avro_bytes
from tidemark.decode.avro_bytes import index_at
from tidemark.decode.avro_types import conversion
from tidemark.decode.exact import Convert, same
from tidemark.decode.outcome import Reason, Refusal

Read = Callable[[bytes, int], tuple[Any, int]]
"""From a value and a place in it to what stands there and the place after it."""

PLAIN: dict[str, Read] = {
    "null": avro_bytes.null_at,
    "boolean": avro_bytes.boolean_at,
    "int": avro_bytes.int_at,
    "long": avro_bytes.long_at,
    "float": avro_bytes.float_at,
    "double": avro_bytes.double_at,
    "bytes": avro_bytes.bytes_at,
    "string": avro_bytes.text_at,
}


def other(where: str, fact: str) -> Refusal:
    """The refusal of a writer's schema."""
    return Refusal(Reason.OTHER_SCHEMA, f"{fact} - at `{where}`")


def plain(schema: Any, to: pa.DataType | None, where: str) -> Read:
    """Reads a datum into the declared type; with None it is passed over.

    Raises:
        Refusal: no value of this schema can be read so.
    """
    read = _bare(schema)
    if to is None:
        return avro_bytes.bytes_at if schema["type"] == "string" else read
    if schema["type"] == "null":
        return read
    convert = conversion(schema, to)
    if convert is None:
        logical = f" ({schema['logicalType']})" if "logicalType" in schema else ""
        raise other(where, f"{schema['type']}{logical} is not read as {to}")
    return read if convert is same else _converted(read, convert, where)


def _bare(schema: Any) -> Read:
    match schema["type"]:
        case "fixed":
            return partial(_fixed, schema["size"])
        case "enum":
            return partial(_enum, schema["symbols"])
        case name:
            return PLAIN[name]


def _fixed(size: int, data: bytes, at: int) -> tuple[bytes, int]:
    return avro_bytes.sized(data, at, size)


def _enum(symbols: list[str], data: bytes, at: int) -> tuple[str, int]:
    index, at = index_at(data, at, len(symbols))
    return symbols[index], at


def _converted(read: Read, convert: Convert, where: str) -> Read:
    def converted(data: bytes, at: int) -> tuple[Any, int]:
        value, at = read(data, at)
        try:
            return convert(value), at
        except Refusal as refusal:
            raise Refusal(refusal.reason, f"{refusal.detail} - at `{where}`") from None

    return converted
