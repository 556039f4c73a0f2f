"""NoFieldDecoder: refuses a JSON value that has none of the declared fields.

To the reader it is a row of nulls: another record, a record in a wrapper, fields in other capitals.
Null counts tell where to look: only of a row of nothing but nulls the value is looked at again. A
declared field that is null is there. Of Avro and Protobuf the writer's schema tells.
"""

from collections.abc import Callable, Collection, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.decode._debezium import DELETE
from tidemark.decode.port import Decoded, Decoder, Reason, Refusal, refusing

Names = Callable[[bytes], Collection[str]]
"""The names of the fields that a value's row has; the value was read."""

_SHOWN = 5
_Fields = dict[str, msgspec.Raw]
_WRAPPER = {"schema", "payload"}


def names_of(value: bytes) -> Collection[str]:
    """Of an object."""
    return _FIELDS(value)


class _Change(msgspec.Struct, gc=False):
    before: _Fields | None = None
    after: _Fields | None = None
    op: str | None = None


class _Event(_Change, gc=False):
    payload: _Change | None = None


_FIELDS = msgspec.json.Decoder(_Fields).decode
_EVENT = msgspec.json.Decoder(_Event).decode


def names_of_change(value: bytes) -> Collection[str]:
    """Of the row that a change event of Debezium is about."""
    event = _EVENT(value)
    change = event.payload or event
    return (change.before if change.op == DELETE else change.after) or ()


class NoFieldDecoder:
    """Refuses the rows of another decoder whose values have none of the declared fields."""

    def __init__(
        self,
        inner: Decoder,
        declared: Sequence[str],
        names: Names = names_of,
        *,
        passes: str | None = None,
    ) -> None:
        """`passes`: the boolean column of rows that need no field: another part has their key."""
        self.schema = inner.schema
        self._inner = inner
        self._declared = declared
        self._names = names
        self._passes = passes

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """What the other makes of the values; without a declared field they are refused."""
        found = self._inner.decode(values)
        refused = {}
        for row in self._suspects(found.rows):
            value = values[found.kept[row].as_py()]
            if value is not None and (refusal := self._refusal(value)):
                refused[row] = refusal
        return refusing(found, refused)

    def _suspects(self, rows: pa.RecordBatch) -> list[int]:
        """The rows of which every declared column is null."""
        columns = rows.columns[: len(self._declared)]
        if not columns or any(column.null_count == 0 for column in columns):
            return []
        is_null = columns[0].is_null()
        for column in columns[1:]:
            is_null = pc.and_(is_null, column.is_null())
        if self._passes is not None:
            is_null = pc.and_not(is_null, rows[self._passes])
        return list(pc.indices_nonzero(is_null).to_pylist())

    def _refusal(self, value: bytes) -> Refusal | None:
        names = self._names(value)
        if any(name in names for name in self._declared):
            return None
        return no_declared_field("the record", names, self._declared)


def no_declared_field(what: str, names: Collection[str], declared: Collection[str]) -> Refusal:
    """Why it is no row, and what it looks like instead."""
    shown = ", ".join(map(repr, sorted(names)[:_SHOWN])) + (", …" if len(names) > _SHOWN else "")
    has = f", but {shown}" if names else ", and no other"
    return Refusal(
        Reason.NO_DECLARED_FIELD,
        f"{what} has none of the declared fields{has}{_hint(names, declared)}",
    )


def _hint(names: Collection[str], declared: Collection[str]) -> str:
    if {*names} == _WRAPPER:
        return ": envelope: connect reads what stands in the payload"
    if {*map(str.lower, names)} & {*map(str.lower, declared)}:
        return ": a name is another one in other capitals"
    return ""
