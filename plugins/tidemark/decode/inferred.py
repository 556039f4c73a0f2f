"""Inferred: the declared type that holds all values of a field that were seen, as JSON has them.

A kind here is a type's name, a dict of members, a list of one item's kind, or one of the two that
declare nothing: only nulls were seen, or values that no type holds together.
"""

import re
from collections.abc import Iterable
from functools import reduce
from typing import Any

import pyarrow as pa

from tidemark.decode.check import MAX_DEPTH
from tidemark.decode.columns import INSTANT, is_read
from tidemark.settings.field_types import parse_type

NOTHING, MIXED = "only nulls", "values of several kinds"

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}Z?")
_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ Tt][0-9:]+(\.[0-9]{1,9})?([Zz]|[+-][0-9:]+)?")
_NARROW = {
    ("bigint", "decimal(38,0)"): "decimal(38,0)",
    ("bigint", "double"): "double",
    ("decimal(38,0)", "double"): "double",
    ("date", "timestamp"): "timestamp",
    ("date", "string"): "string",
    ("string", "timestamp"): "string",
}

Kind = str | dict[str, Any] | list[Any]


def kinds(documents: Iterable[dict[str, Any]]) -> dict[str, Kind]:
    """Of objects' fields, in the order in which they were first seen."""
    found: Kind = {}
    merged = reduce(_merged, map(_kind, documents), found)
    return merged if isinstance(merged, dict) else {}


def declared(kind: Kind) -> str | None:
    """The type's text; None where none can be declared. Members without a type are left out."""
    if isinstance(kind, dict):
        members = {name: declared(one) for name, one in kind.items() if _is_name(name)}
        inner = ",".join(f"{_quoted(name)}:{text}" for name, text in members.items() if text)
        return f"struct<{inner}>" if inner else None
    if isinstance(kind, list):
        item = declared(kind[0])
        return item and f"array<{item}>"
    return None if kind in (NOTHING, MIXED) else kind


def _is_name(name: str) -> bool:
    try:
        parse_type(f"struct<{_quoted(name)}:int>")
    except ValueError:
        return False
    return True


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else f"`{name}`"


def _kind(value: Any, depth: int = 0) -> Kind:
    match value:
        case dict() | list() if depth > MAX_DEPTH:
            return MIXED
        case None:
            return NOTHING
        case bool():
            return "boolean"
        case int():
            return _whole(value)
        case float():
            return "double"
        case str():
            return _of_text(value)
        case list():
            nothing: Kind = NOTHING
            return [reduce(_merged, (_kind(one, depth + 1) for one in value), nothing)]
        case _:
            return {name: _kind(one, depth + 1) for name, one in value.items()}


def _whole(value: int) -> str:
    if -(2**63) <= value < 2**63:
        return "bigint"
    return "decimal(38,0)" if abs(value) < 10**38 else MIXED


def _of_text(value: str) -> str:
    """A time is one if it is read as one."""
    if _DATE.fullmatch(value) and is_read(value, pa.date32()):
        return "date"
    is_instant = _INSTANT.fullmatch(value) and is_read(value, INSTANT)
    return "timestamp" if is_instant else "string"


def _merged(one: Kind, other: Kind) -> Kind:
    if one == other or other == NOTHING:
        return one
    if one == NOTHING:
        return other
    if isinstance(one, dict) and isinstance(other, dict):
        names = dict.fromkeys([*one, *other])
        return {name: _merged(one.get(name, NOTHING), other.get(name, NOTHING)) for name in names}
    if isinstance(one, list) and isinstance(other, list):
        return [_merged(one[0], other[0])]
    if isinstance(one, str) and isinstance(other, str):
        first, second = sorted((one, other))
        return _NARROW.get((first, second), MIXED)
    return MIXED
