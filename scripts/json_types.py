"""JSON schemas of types, as `tidemark.model.plain` writes their values."""

import ast
import inspect
import types
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from textwrap import dedent
from typing import Any, Union, get_args, get_origin, get_type_hints

Schema = dict[str, Any]

SIMPLE: dict[Any, Schema] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    datetime: {"type": "string", "format": "date-time"},
    type(None): {"type": "null"},
    Any: {},
    object: {},
}


class Types:
    """Schemas of types; those of dataclasses stand together and are named."""

    def __init__(self, names: Mapping[str, Any], more: Mapping[type, Mapping[str, Any]]) -> None:
        """`names` that annotations use and their modules do not have; and what is derived."""
        self._names = names
        self._more = more
        self.defined: dict[str, Schema] = {}

    def schema(self, of: Any) -> Schema:
        """The schema of a type."""
        if of in SIMPLE:
            return SIMPLE[of]
        origin, arguments = get_origin(of), get_args(of)
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.schema(one) for one in arguments]}
        if origin is not None and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.schema(arguments[1])}
        if origin is not None and issubclass(origin, Collection):
            return {"type": "array", "items": self.schema(arguments[0])}
        if isinstance(of, type) and issubclass(of, Enum):
            return {"enum": [str(one) for one in of]}
        if is_dataclass(of) and isinstance(of, type):
            return self._named(of)
        raise TypeError(f"{of} has no schema")

    def _named(self, of: type) -> Schema:
        if of.__name__ not in self.defined:
            self.defined[of.__name__] = {}  # it may hold itself
            hints = get_type_hints(of, localns=dict(self._names))
            said = _said(of)
            parts = {
                one.name: self.schema(hints[one.name]) | said.get(one.name, {})
                for one in fields(of)
            }
            parts |= {name: self.schema(kind) for name, kind in self._more.get(of, {}).items()}
            self.defined[of.__name__] = closed(parts) | _described(of)
        return {"$ref": f"#/$defs/{of.__name__}"}


def closed(parts: Mapping[str, Schema]) -> Schema:
    """An object with these parts, all of them, and no others."""
    return {
        "type": "object",
        "properties": dict(parts),
        "required": list(parts),
        "additionalProperties": False,
    }


def _described(of: type) -> Schema:
    return {"description": inspect.cleandoc(of.__doc__ or "").split("\n\n")[0]}


def _said(of: type) -> dict[str, Schema]:
    """What stands below each field in the source."""
    [body] = ast.parse(dedent(inspect.getsource(of))).body
    found: dict[str, Schema] = {}
    name = ""
    for node in body.body:  # type: ignore[attr-defined]
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
            continue
        text = node.value.value if isinstance(node, ast.Expr) and name else None  # type: ignore[attr-defined]
        if isinstance(text, str):
            found[name] = {"description": " ".join(text.split())}
        name = ""
    return found
