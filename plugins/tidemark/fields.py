"""Fields: the type names of a pipeline file, and the Arrow schema that they declare.

The names are those of Spark SQL's DDL, in any case: what a pipeline declares is what its
transform sees. Every field may be null, because a record may lack it.
"""

import re
from collections.abc import Iterable, Mapping

import pyarrow as pa

from tidemark.errors import InvalidSettings

ALLOWED = (
    "boolean, smallint, int, bigint, float, double, decimal(p,s), string, binary, date, "
    "timestamp, array<type>, struct<name:type,...>"
)
RESERVED_PREFIX = "kafka_"
MAX_NAME_BYTES = 63
MAX_PRECISION = 38

_SIMPLE = {
    "boolean": pa.bool_(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ltz": pa.timestamp("us", "UTC"),
}
_DECIMAL = {"decimal", "dec", "numeric"}
_TOKEN = re.compile(r"\s*(`[^`]+`|\w+|[<>(),:]|\S)")


def arrow_schema(fields: Mapping[str, str]) -> pa.Schema:
    """The Arrow schema of declared fields, in their order; every field may be null.

    Raises:
        InvalidSettings: no field, a name that cannot be a column, or a type that is not known.
    """
    if not fields:
        raise InvalidSettings("the schema declares no field; declare at least one")
    _check_names(fields)
    return pa.schema([pa.field(name, arrow_type(name, text)) for name, text in fields.items()])


def arrow_type(field: str, text: str) -> pa.DataType:
    """The Arrow type that `text` names; `field` is for the error alone.

    Raises:
        InvalidSettings: the text is not one type; names the field, the text and what is allowed.
    """
    return _Parser(field, text).parse()


def _check_names(names: Iterable[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        _check_name(name)
        if other := seen.get(name.lower()):
            raise InvalidSettings(
                f"fields {other!r} and {name!r} have one name: Spark ignores case; rename one"
            )
        seen[name.lower()] = name


def _check_name(name: str) -> None:
    if not name or not name.isprintable():
        raise InvalidSettings(f"field {name!r} is empty or not printable; give it a plain name")
    if (size := len(name.encode())) > MAX_NAME_BYTES:
        raise InvalidSettings(
            f"field {name!r} is {size} bytes long; a Postgres column has at most {MAX_NAME_BYTES}"
        )
    if name.lower().startswith(RESERVED_PREFIX):
        raise InvalidSettings(
            f"field {name!r} starts with {RESERVED_PREFIX!r}, which is kept for the record's "
            "coordinates; rename it"
        )


class _Parser:
    """Reads one type from its tokens, left to right."""

    def __init__(self, field: str, text: str) -> None:
        self._field = field
        self._text = text
        self._tokens = _TOKEN.findall(text)[::-1]

    def parse(self) -> pa.DataType:
        parsed = self._type()
        if self._tokens:
            raise self._error(f"has {self._tokens[-1]!r} after its end")
        return parsed

    def _type(self) -> pa.DataType:
        name = self._next().lower()
        if name in _SIMPLE:
            return _SIMPLE[name]
        if name in _DECIMAL:
            return self._decimal()
        if name == "array":
            return self._array()
        if name == "struct":
            return self._struct()
        if name == "map":
            raise self._error("is a map, which is not read from JSON; declare a struct")
        raise self._error(f"names {name!r}, which is no type")

    def _decimal(self) -> pa.DataType:
        precision, scale = 10, 0
        if self._accept("("):
            precision = self._number()
            scale = self._number() if self._accept(",") else 0
            self._expect(")")
        if not (1 <= precision <= MAX_PRECISION and scale <= precision):
            raise self._error(f"needs 1 <= precision <= {MAX_PRECISION} and scale <= precision")
        return pa.decimal128(precision, scale)

    def _array(self) -> pa.DataType:
        self._expect("<")
        item = self._type()
        self._expect(">")
        return pa.list_(item)

    def _struct(self) -> pa.DataType:
        self._expect("<")
        members = [self._member()]
        while self._accept(","):
            members.append(self._member())
        self._expect(">")
        names = [member.name.lower() for member in members]
        if len(set(names)) < len(names):
            raise self._error("has a struct that names a member twice (Spark ignores case)")
        return pa.struct(members)

    def _member(self) -> pa.Field:
        name = self._next()
        if not re.fullmatch(r"\w+|`.+`", name):
            raise self._error(f"has {name!r} where a member's name should be")
        self._expect(":")
        return pa.field(name.strip("`"), self._type())

    def _number(self) -> int:
        token = self._next()
        if not re.fullmatch(r"[0-9]{1,2}", token):
            raise self._error(f"has {token!r} where a small number should be")
        return int(token)

    def _accept(self, token: str) -> bool:
        if self._tokens and self._tokens[-1] == token:
            self._tokens.pop()
            return True
        return False

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            found = repr(self._tokens[-1]) if self._tokens else "its end"
            raise self._error(f"has {found} where {token!r} should be")

    def _next(self) -> str:
        if not self._tokens:
            raise self._error("ends too early")
        return str(self._tokens.pop())

    def _error(self, fact: str) -> InvalidSettings:
        return InvalidSettings(
            f"field {self._field!r}: the type {self._text!r} {fact}; allowed: {ALLOWED}"
        )
