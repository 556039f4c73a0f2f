"""Reading Avro: of a writer's schema and a declared type, the function that reads one as the other.

What is not declared is read too, for its length alone. There a schema may contain itself, and its
values may be nested MAX_DEPTH deep. An array of items without bytes is refused: a few bytes could
name billions of them. What is read is therefore bounded by the value's own size.
"""

import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from tidemark.decode import _avro_plain as raw
from tidemark.decode._avro_plain import (
    PLAIN,
    Read,
    index_at,
    invalid,
    long_at,
    plain,
    text_at,
)
from tidemark.decode._connect import DELETED_AT, deletion
from tidemark.decode._exact import other, text
from tidemark.decode._no_field import no_declared_field
from tidemark.decode.port import Reason, Refusal

MAX_DEPTH = 64
MAX_NODES = 10_000
"""Types within types; a schema of a few lines may name one type millions of times."""

MOST_PARTS = 2_000_000
"""What the items of a value's arrays and maps have within: each takes a hundred times its bytes."""

_COMPLEX = ("record", "error", "array", "map")
_STEP = re.compile(r"[.\[{]")


class _Within:
    """A record that is passed over, while it is found out how; it may have itself within."""

    read: Read

    def __init__(self, depth: int) -> None:
        self.depth = depth


class Readers:
    """The readers of one writer's schema, as fastavro's parser gives it with all its names."""

    def __init__(
        self,
        named: Mapping[str, Any],
        *,
        refuses_new: bool = False,
        rows: Collection[str] = (),
        refuses_deletion: bool = False,
    ) -> None:
        """`refuses_new`: a record with a field that is not declared is refused.

        `rows`: so is a record at one of these places that has no declared field.
        `refuses_deletion`: so is a value that says that its row was deleted, if that is not
        declared.
        """
        self._named = named
        self._refuses_new = refuses_new
        self._rows = rows
        self._refuses_deletion = refuses_deletion
        self.looks_for_deletions = False
        self._open: dict[str, _Within] = {}
        self._nodes = 0
        self._depth = 0
        self._parts = 0

    def datum(self, schema: Any, to: pa.DataType) -> Read:
        """The same for a whole value; no part of it counts for the next one."""
        read = self.reader(schema, to)

        def begun(data: bytes, at: int) -> tuple[Any, int]:
            self._depth = self._parts = 0
            return read(data, at)

        return begun

    def reader(self, schema: Any, to: pa.DataType | None, where: str = "$") -> Read:
        """Reads a datum into the declared type; with None it is passed over.

        Raises:
            Refusal: no value of this schema can be read so.
        """
        if isinstance(schema, list):
            return self._union(schema, to, where)
        self._refuse_endless(where)
        schema = self._whole(schema)
        match schema["type"]:
            case "record" | "error" if to is None:
                return self._passed_over(schema, where)
            case "record" | "error":
                return self._record(schema, to, where)
            case "array":
                return self._array(schema["items"], to, where)
            case "map":
                return self._map(schema["values"], to, where)
        return plain(schema, to, where)

    def _whole(self, schema: Any) -> Any:
        """The type that a name stands for."""
        if isinstance(schema, str):
            return {"type": schema} if schema in PLAIN else self._named[schema]
        return schema

    def _refuse_endless(self, where: str) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES or _depth(where) > MAX_DEPTH:
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
        if branch == "null":
            return raw.null_at
        try:
            return self.reader(branch, to, where)
        except Refusal as refusal:
            if refusal.reason not in (Reason.OTHER_SCHEMA, Reason.NO_DECLARED_FIELD):
                raise
            return refusal

    def _or_refused(self, reader: Read | Refusal) -> Read:
        if not isinstance(reader, Refusal):
            return reader
        reason, detail = reader.reason, reader.detail
        reason = Reason.WRONG_TYPE if reason is Reason.OTHER_SCHEMA else reason

        def refused(data: bytes, at: int) -> tuple[Any, int]:
            raise Refusal(reason, detail)

        return refused

    def _passed_over(self, schema: Any, where: str) -> Read:
        name = schema["name"]
        if name in self._open:
            return self._nested(self._open[name], _depth(where))
        self._open[name] = found = _Within(_depth(where))
        try:
            found.read = self._record(schema, None, where)
        finally:
            del self._open[name]
        return found.read

    def _nested(self, of: _Within, depth: int) -> Read:
        """Passes over a record within itself, so much deeper than that began."""
        deeper = depth - of.depth

        def nested(data: bytes, at: int) -> tuple[Any, int]:
            if self._depth + depth > MAX_DEPTH:
                raise Refusal(Reason.TOO_DEEP, f"nested deeper than {MAX_DEPTH}")
            self._depth += deeper
            found = of.read(data, at)
            self._depth -= deeper
            return found

        return nested

    def _record(self, schema: Any, to: pa.DataType | None, where: str) -> Read:
        name = schema["name"]
        if to is not None and not pa.types.is_struct(to):
            raise other(where, f"a record is no {to}")
        declared = {} if to is None else {field.name: field.type for field in to}
        new = [one["name"] for one in schema["fields"] if one["name"] not in declared]
        if self._refuses_new and new and to is not None:
            raise Refusal(Reason.NEW_FIELD, f"{name} has {', '.join(new)}, not declared")
        if where in self._rows and len(new) == len(schema["fields"]):
            raise no_declared_field(name, new, declared)
        steps = []
        for one in schema["fields"]:
            inner = declared.get(one["name"])
            read = self._member(one["type"], inner, f"{where}.{one['name']}")
            steps.append((one["name"] if one["name"] in declared else None, read))

        def record(data: bytes, at: int) -> tuple[dict[str, Any], int]:
            found = {}
            for name, read in steps:
                value, at = read(data, at)
                if name is not None:
                    found[name] = value
            return found, at

        return record

    def _member(self, schema: Any, to: pa.DataType | None, where: str) -> Read:
        if self._refuses_deletion and where == DELETED_AT and to is None:
            return self._unless_deleted(schema)
        return self.reader(schema, to, where)

    def _unless_deleted(self, schema: Any) -> Read:
        """Passes over what tells whether the row was deleted, unless it was."""
        self.looks_for_deletions = True
        found = [self._branch(schema, to, DELETED_AT) for to in (pa.string(), pa.bool_())]
        read = next((one for one in found if not isinstance(one, Refusal)), None)
        if read is None:
            return self.reader(schema, None, DELETED_AT)

        def unless_deleted(data: bytes, at: int) -> tuple[None, int]:
            value, at = read(data, at)
            if value in (True, "true"):
                raise deletion()
            return None, at

        return unless_deleted

    def _array(self, items: Any, to: pa.DataType | None, where: str) -> Read:
        if to is not None and not pa.types.is_list(to):
            raise other(where, f"an array is no {to}")
        before = self._nodes
        item = self.reader(items, None if to is None else to.value_type, f"{where}[]")
        if not self._takes_bytes(items):
            raise other(where, "the writer's array has items without bytes")
        if to is None:
            return partial(_passed_blocks, item)
        return partial(
            _blocks, item, None if self._is_plain(items) else self._counter(self._nodes - before)
        )

    def _map(self, values: Any, to: pa.DataType | None, where: str) -> Read:
        entry = None if to is None else _entry(to, where)
        before = self._nodes - 1
        value_of = self.reader(values, entry, f"{where}{{}}")
        key_of: Read = raw.bytes_at if entry is None else text_at

        def passed(data: bytes, at: int) -> tuple[None, int]:
            _, at = key_of(data, at)
            return None, value_of(data, at)[1]

        def pair(data: bytes, at: int) -> tuple[dict[str, Any], int]:
            key, at = key_of(data, at)
            value, at = value_of(data, at)
            return {"key": text(key), "value": value}, at

        counted = self._counter(self._nodes - before)

        def entries(data: bytes, at: int) -> tuple[list[Any], int]:
            found, at = _blocks(pair, counted, data, at)
            if len({one["key"] for one in found}) < len(found):
                raise Refusal(Reason.DUPLICATE_KEY, f"a map has a key twice - at `{where}`")
            return found, at

        return partial(_passed_blocks, passed) if entry is None else entries

    def _counter(self, parts: int) -> Callable[[int], None]:
        """Counts items that have so many parts each."""

        def counted(items: int) -> None:
            self._parts += items * parts
            if self._parts > MOST_PARTS:
                raise Refusal(
                    Reason.TOO_LARGE, f"items of arrays and maps have more than {MOST_PARTS} parts"
                )

        return counted

    def _is_plain(self, schema: Any) -> bool:
        """Whether it becomes no more than a number or a text."""
        if isinstance(schema, list):
            return all(self._is_plain(one) for one in schema)
        schema = self._whole(schema)
        return schema["type"] not in _COMPLEX and "logicalType" not in schema

    def _takes_bytes(self, schema: Any, within: tuple[str, ...] = ()) -> bool:
        """Whether every datum has a byte at least; one that has itself within has no datum."""
        if isinstance(schema, list):
            return True
        schema = self._whole(schema)
        if schema["type"] not in ("record", "error"):
            return bool(schema["type"] != "null" and schema.get("size") != 0)
        name = schema["name"]
        return name not in within and any(
            self._takes_bytes(field["type"], (*within, name)) for field in schema["fields"]
        )


def _depth(where: str) -> int:
    return len(_STEP.findall(where))


def _blocks(
    item: Read, counted: Callable[[int], None] | None, data: bytes, at: int
) -> tuple[list[Any], int]:
    """Blocks of items, each with its number, or with the negative number and its bytes."""
    found: list[Any] = []
    while True:
        count, end, at = _block(data, at)
        if not count:
            return found, at
        if counted:
            counted(count)
        for _ in range(count):
            value, at = item(data, at)
            found.append(value)
        _refuse_other_end(end, at)


def _passed_blocks(item: Read, data: bytes, at: int) -> tuple[None, int]:
    """The same of items that are passed over."""
    while True:
        count, end, at = _block(data, at)
        if not count:
            return None, at
        for _ in range(count):
            _, at = item(data, at)
        _refuse_other_end(end, at)


def _block(data: bytes, at: int) -> tuple[int, int | None, int]:
    """How many items follow, where they end if that is said, and where they begin."""
    count, at = long_at(data, at)
    end = None
    if count < 0:
        size, at = long_at(data, at)
        count, end = -count, at + size
    if count > len(data) - at:  # each has a byte at least
        raise invalid(f"{count} items are said where {len(data) - at} bytes are left")
    return count, end, at


def _refuse_other_end(end: int | None, at: int) -> None:
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
