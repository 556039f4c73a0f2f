"""The type names of a pipeline file: those of Spark SQL's DDL, in any case.

What a pipeline declares is what its transform sees.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tidemark.model.table_name import NAME_BYTES
from tidemark.settings.errors import FieldNameUnfit, FieldsOfOneName, TypeUnreadable

UNREAD = frozenset('\\"')
RESERVED_PREFIX = "kafka_"
MAX_PRECISION = 38

_SIMPLE = {
    "boolean": "boolean",
    "smallint": "smallint",
    "short": "smallint",
    "int": "int",
    "integer": "int",
    "bigint": "bigint",
    "long": "bigint",
    "float": "float",
    "real": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
}
_DECIMAL = {"decimal", "dec", "numeric"}
_TOKEN = re.compile(r"\s*(`[^`]+`|\w+|[<>(),:]|\S)")


@dataclass(frozen=True, slots=True)
class Simple:
    """A type without parameters, by the first of its names."""

    name: str


@dataclass(frozen=True, slots=True)
class Decimal:
    """An exact number."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class Array:
    """A list of one type."""

    item: "FieldType"


@dataclass(frozen=True, slots=True)
class Struct:
    """Named members, in their order."""

    members: "tuple[tuple[str, FieldType], ...]"


FieldType = Simple | Decimal | Array | Struct


def parse_type(text: str, field: str | None = None) -> FieldType:
    """Read one type; `field` is for the error alone.

    Raises:
        InvalidSettings: the text is not one type; names it and what is allowed.
    """
    return _Parser(text, field).parse()


def check_names(names: Iterable[str]) -> None:
    """Refuse names that can't be columns, or are one column.

    Raises:
        InvalidSettings: names the field.
    """
    seen: dict[str, str] = {}
    for name in names:
        if fault := _fault_of(name):
            raise FieldNameUnfit(field=name, fault=fault)
        if other := seen.get(name.lower()):
            raise FieldsOfOneName(names=(other, name))
        seen[name.lower()] = name


def _fault_of(name: str) -> str | None:
    if not name or not name.isprintable():
        return "is empty or not printable; give it a plain name"
    if not UNREAD.isdisjoint(name):
        return (
            "has a backslash or a double quote, which the decoder of JSON can't read; leave it out,"
            " or take values with format: raw"
        )
    if (size := len(name.encode())) > NAME_BYTES:
        return f"is {size} bytes long; a Postgres column has at most {NAME_BYTES}"
    if name.lower().startswith(RESERVED_PREFIX):
        return (
            f"starts with {RESERVED_PREFIX!r}, which is kept for the record's coordinates; leave it"
            " out, or rename it in a decoder of your own"
        )
    return None


class _Parser:
    """Reads one type from its tokens, left to right."""

    def __init__(self, text: str, field: str | None) -> None:
        self._text = text
        self._field = field
        self._tokens = _TOKEN.findall(text)[::-1]

    def parse(self) -> FieldType:
        parsed = self._type()
        if self._tokens:
            raise self._error(f"has {self._tokens[-1]!r} after its end")
        return parsed

    def _type(self) -> FieldType:
        name = self._next().lower()
        if name in _SIMPLE:
            return Simple(_SIMPLE[name])
        if name in _DECIMAL:
            return self._decimal()
        if name == "array":
            return self._array()
        if name == "struct":
            return self._struct()
        if name == "map":
            raise self._error("is a map, which is not read from JSON; declare a struct")
        raise self._error(f"names {name!r}, which is no type")

    def _decimal(self) -> FieldType:
        precision, scale = 10, 0
        if self._accept("("):
            precision = self._number()
            scale = self._number() if self._accept(",") else 0
            self._expect(")")
        if not (1 <= precision <= MAX_PRECISION and scale <= precision):
            raise self._error(f"needs 1 <= precision <= {MAX_PRECISION} and scale <= precision")
        return Decimal(precision, scale)

    def _array(self) -> FieldType:
        self._expect("<")
        item = self._type()
        self._expect(">")
        return Array(item)

    def _struct(self) -> FieldType:
        self._expect("<")
        members = [self._member()]
        while self._accept(","):
            members.append(self._member())
        self._expect(">")
        names = [name.lower() for name, _ in members]
        if len(set(names)) < len(names):
            raise self._error("has a struct that names a member twice (Spark ignores case)")
        return Struct(tuple(members))

    def _member(self) -> tuple[str, FieldType]:
        name = self._next()
        if not re.fullmatch(r"\w+|`.+`", name):
            raise self._error(f"has {name!r} where a member's name should be")
        if not UNREAD.isdisjoint(name):
            raise self._error(f"has the member {name} with a backslash or a double quote")
        self._expect(":")
        return name.strip("`"), self._type()

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

    def _error(self, fact: str) -> TypeUnreadable:
        return TypeUnreadable(field=self._field, declared=self._text, fact=fact)
