"""A writer's schema of Avro, with what its specification lets readers ignore left out.

Writers' libraries register logical types that their own rules forbid (Oracle's NUMBER has 64 digits
of which 127 are behind the point), and defaults of another type. To a reader of the
writer's own bytes neither means anything, so neither may make a schema unreadable.
"""

from collections.abc import Callable
from math import floor, log10
from typing import Any

_KEPT = (
    "type", "name", "namespace", "fields", "items", "values", "symbols", "size",
    "logicalType", "precision", "scale",
)  # fmt: skip
"""Of a type: no default, and nothing that another library takes for a hint."""
_COMPLEX = ("record", "error", "enum", "array", "map", "fixed")
_FIELDS = ("name", "type")


def plain(schema: Any) -> Any:
    """The schema of the same bytes: a type in a type is that type."""
    if isinstance(schema, list):
        return [plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if isinstance(kind, dict | list):
        return plain(kind)
    is_logical = _is_logical(schema)
    if kind not in _COMPLEX and not is_logical:
        return kind
    kept = _KEPT if is_logical else _KEPT[: _KEPT.index("logicalType")]
    found = {key: schema[key] for key in kept if key in schema}
    for key in ("items", "values"):
        if key in found:
            found[key] = plain(found[key])
    if "fields" in found:
        found["fields"] = [_field(one) for one in found["fields"]]
    return found


def _field(field: dict[str, Any]) -> dict[str, Any]:
    return {key: plain(field[key]) if key == "type" else field[key] for key in _FIELDS}


def _is_logical(schema: dict[str, Any]) -> bool:
    """Whether its logical type is one that its type carries."""
    logical = schema.get("logicalType")
    fits = _LOGICAL.get(logical) if isinstance(logical, str) else None
    return fits is not None and fits(schema)


def _of(kind: str, size: int | None = None) -> Callable[[dict[str, Any]], bool]:
    def fits(schema: dict[str, Any]) -> bool:
        return schema["type"] == kind and size in (None, schema.get("size"))

    return fits


def _is_uuid(schema: dict[str, Any]) -> bool:
    return _of("string")(schema) or _of("fixed", 16)(schema)


def _is_decimal(schema: dict[str, Any]) -> bool:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision:
        return False
    if schema["type"] == "fixed":
        return 0 < precision <= _digits(schema.get("size"))
    return bool(schema["type"] == "bytes" and precision > 0)


def _digits(size: Any) -> int:
    """That a signed number of so many bytes holds whatever they are."""
    return floor(log10(2) * (8 * size - 1)) if type(size) is int and size > 0 else 0


_LOGICAL: dict[str, Callable[[dict[str, Any]], bool]] = {
    "decimal": _is_decimal,
    "big-decimal": _of("bytes"),
    "uuid": _is_uuid,
    "duration": _of("fixed", 12),
    "date": _of("int"),
    "time-millis": _of("int"),
    "time-micros": _of("long"),
    **{
        f"{local}timestamp-{unit}": _of("long")
        for local in ("", "local-")
        for unit in ("millis", "micros", "nanos")
    },
}
"""Those that the specification has; any other one is ignored."""
