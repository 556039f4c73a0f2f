"""Reading Avro: of a writer's schema and a declared type, the function that reads one as the other.

What is not declared is read too, for its length alone. A schema that contains itself is refused:
its values could be nested as deep as they please. So is an array of items without bytes: a few
bytes could name billions of them. What is read is therefore bounded by the value's own size.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from tidemark.decode import avro_bytes as raw
from tidemark.decode.avro_bytes import index_at, invalid, long_at, text_at
from tidemark.decode.avro_plain import PLAIN, Read, other, plain
from tidemark.decode.exact import text
from tidemark.decode.outcome import Reason, Refusal

MAX_DEPTH = 64
MAX_NODES = 10_000
"""Types within types; a schema of a few lines may name one type millions of times."""

_STEP = re.compile(r"[.\[{]")


class Readers:
    """The readers of one writer's schema, as fastavro's parser gives it with all its names."""

    def __init__(self, named: Mapping[str, Any], *, refuses_new: bool = False) -> None:
        """`refuses_new`: a record with a field that is not declared is refused."""
        self._named = named
        self._refuses_new = refuses_new
        self._open: list[str] = []
        self._nodes = 0

    def reader(self, schema: Any, to: pa.DataType | None, where: str = "$") -> Read:
        """Reads a datum into the declared type; with None it is passed over.

        Raises:
            Refusal: no value of this schema can be read so.
        """
        if isinstance(schema, list):
            return self._union(schema, to, where)
        self._refuse_endless(where)
        if isinstance(schema, str):
            schema = {"type": schema} if schema in PLAIN else self._named[schema]
        match schema["type"]:
            case "record" | "error":
                return self._record(schema, to, where)
            case "array":
                return self._array(schema["items"], to, where)
            case "map":
                return self._map(schema["values"], to, where)
            case str(name) if name not in self._named:
                return plain(schema, to, where)
        return self.reader(schema["type"], to, where)

    def _refuse_endless(self, where: str) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES or len(_STEP.findall(where)) > MAX_DEPTH:
            raise other(where[:100], "the writer's schema is too large or too deep")

    def _union(self, branches: list[Any], to: pa.DataType | None, where: str) -> Read:
        readers = [self._branch(branch, to, where) for branch in branches]
        if all(isinstance(one, Refusal) for one in readers):
            raise next(one for one in readers if isinstance(one, Refusal))
        fitting = [self._or_refused(one) for one in readers]

        def union(data: bytes, at: int) -> tuple[Any, int]:
            index, at = index_at(data, at, len(fitting))
            return fitting[index](data, at)

        return union

    def _branch(self, branch: Any, to: pa.DataType | None, where: str) -> Read | Refusal:
        if branch == "null" or branch == {"type": "null"}:
            return raw.null_at
        try:
            return self.reader(branch, to, where)
        except Refusal as refusal:
            if refusal.reason is not Reason.OTHER_SCHEMA:
                raise
            return refusal

    def _or_refused(self, reader: Read | Refusal) -> Read:
        if not isinstance(reader, Refusal):
            return reader
        detail = reader.detail

        def refused(data: bytes, at: int) -> tuple[Any, int]:
            raise Refusal(Reason.WRONG_TYPE, detail)

        return refused

    def _record(self, schema: Any, to: pa.DataType | None, where: str) -> Read:
        name = schema["name"]
        if name in self._open:
            raise other(where, f"the writer's schema {name} contains itself")
        if to is not None and not pa.types.is_struct(to):
            raise other(where, f"a record is no {to}")
        declared = {} if to is None else {field.name: field.type for field in to}
        new = [one["name"] for one in schema["fields"] if one["name"] not in declared]
        if self._refuses_new and new and to is not None:
            raise Refusal(Reason.NEW_FIELD, f"{name} has {', '.join(new)}, not declared")
        self._open.append(name)
        try:
            parts = [
                (
                    one["name"],
                    self.reader(one["type"], declared.get(one["name"]), f"{where}.{one['name']}"),
                )
                for one in schema["fields"]
            ]
        finally:
            self._open.pop()
        steps = [(name if name in declared else None, read) for name, read in parts]

        def record(data: bytes, at: int) -> tuple[dict[str, Any], int]:
            found = {}
            for name, read in steps:
                value, at = read(data, at)
                if name is not None:
                    found[name] = value
            return found, at

        return record

    def _array(self, items: Any, to: pa.DataType | None, where: str) -> Read:
        if to is not None and not pa.types.is_list(to):
            raise other(where, f"an array is no {to}")
        item = self.reader(items, None if to is None else to.value_type, f"{where}[]")
        if not self._takes_bytes(items):
            raise other(where, "the writer's array has items without bytes")
        return partial(_blocks, item, to is not None)

    def _map(self, values: Any, to: pa.DataType | None, where: str) -> Read:
        entry = None if to is None else _entry(to, where)
        value_of = self.reader(values, entry, f"{where}{{}}")
        key_of: Read = raw.bytes_at if entry is None else text_at

        def pair(data: bytes, at: int) -> tuple[dict[str, Any] | None, int]:
            key, at = key_of(data, at)
            value, at = value_of(data, at)
            return (None if entry is None else {"key": text(key), "value": value}), at

        return partial(_blocks, pair, to is not None)

    def _takes_bytes(self, schema: Any) -> bool:
        """Whether every datum has a byte at least."""
        if isinstance(schema, str):
            return (schema in PLAIN and schema != "null") or (
                schema in self._named and self._takes_bytes(self._named[schema])
            )
        if isinstance(schema, list):
            return True
        match schema["type"]:
            case "record" | "error":
                return any(self._takes_bytes(field["type"]) for field in schema["fields"])
            case "fixed":
                return bool(schema["size"] > 0)
            case "array" | "map" | "enum":
                return True
        return self._takes_bytes(schema["type"])


def _blocks(item: Read, keeps: bool, data: bytes, at: int) -> tuple[list[Any] | None, int]:
    """Blocks of items, each with its number, or with the negative number and its bytes."""
    found: list[Any] = []
    while True:
        count, at = long_at(data, at)
        if not count:
            return (found if keeps else None), at
        end = None
        if count < 0:
            size, at = long_at(data, at)
            end = at + size
        for _ in range(abs(count)):
            value, at = item(data, at)
            if keeps:
                found.append(value)
        if end not in (None, at):
            raise invalid("a block of items has another size than it says")


def _entry(to: pa.DataType, where: str) -> pa.DataType:
    """The declared type of a map's values."""
    pair = to.value_type if pa.types.is_list(to) else None
    if pair is not None and pa.types.is_struct(pair):
        members = [(member.name, member.type) for member in pair]
        if [name for name, _ in members] == ["key", "value"] and members[0][1] == pa.string():
            return members[1][1]
    raise other(where, f"a map is no {to}: declare array<struct<key:string,value:type>>")
