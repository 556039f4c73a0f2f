"""Values of Arrow arrays as JSON text, which staging holds.

Structs, maps and lists of them are staged as JSON text. A struct becomes an object with all fields,
also those that are null; a map becomes an object with texts as keys. Bytes become base64, dates and
timestamps ISO 8601 (UTC ends in Z), decimals numbers with all their digits. NaN and the infinities,
which JSON lacks, become the strings "NaN", "Infinity", "-Infinity".
"""

from collections.abc import Callable
from datetime import UTC
from typing import Any

import msgspec
import pyarrow as pa

from tidemark.model.plain import number

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
