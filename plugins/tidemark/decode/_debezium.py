"""DebeziumDecoder: the row of a change event, and whether the event deletes it.

An event holds the row before and after the change, and what the change is: `c`reate, `r`ead (of a
snapshot), `u`pdate, `d`elete. With its schema inside, all this is the event's `payload`.

Debezium writes a placeholder for a value that its source did not send: Postgres does not send a
large value that an update leaves as it is, nor Oracle a large object. The placeholder takes the
form that the column's type allows; here it is found in each of them.
"""

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from hashlib import md5
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.decode._old_key import are_changed, in_front, refusals_of
from tidemark.decode.port import Decoded, Decoder, OldKey, Reason, Refusal, refusing
from tidemark.settings.decode import SOURCE_PREFIX

PLACEHOLDER = "__debezium_unavailable_value"
"""Debezium's own `unavailable.value.placeholder`."""
_HEX = "hex:"
_SHAPES = [
    bytes.fromhex("0101000020E6100000000000FC83D797C1000000FC83D797C1"),
    bytes.fromhex("0101000020E61000000C21E7FDFF7F66401842CEFBFF7F5640"),
]
"""What stands for a geometry, and for a geography of PostGIS, whatever the placeholder is."""


class Unavailable:
    """One placeholder, as the connector is configured."""

    def __init__(self, placeholder: str = PLACEHOLDER) -> None:
        """`hex:` in front says that it is of bytes, as in Debezium."""
        is_hex = placeholder.startswith(_HEX)
        data = bytes.fromhex(placeholder.removeprefix(_HEX)) if is_hex else placeholder.encode()
        self._text = data.decode(errors="replace")
        encoded = (b64encode(data).decode(), urlsafe_b64encode(data).decode(), data.hex())
        pair = f'{{"{self._text}":"{self._text}"}}'
        uuid = str(UUID(bytes=md5(data, usedforsecurity=False).digest(), version=3))
        self._texts = pa.array([self._text, *encoded, data.hex().upper(), pair], pa.string())
        self._items = pa.array([self._text, *encoded, uuid], pa.string())
        self._bytes = pa.array([data], pa.binary())
        self._shapes = pa.array(_SHAPES, pa.binary())
        self._numbers = [byte - 256 if byte > 127 else byte for byte in data]

    def wire(self, declared: pa.Schema) -> list[pa.Field]:
        """The columns to read, in which the placeholder of a map of texts shows."""
        return [one.with_type(self._wire(one.type)) for one in declared]

    def _wire(self, of: pa.DataType) -> pa.DataType:
        if not pa.types.is_struct(of) or of.get_field_index(self._text) >= 0:
            return of
        return pa.struct([*of, pa.field(self._text, pa.string())])

    def split_placeholders(
        self, columns: Sequence[pa.Array], declared: pa.Schema
    ) -> list[tuple[pa.Array, pa.Array]]:
        """Each column as declared, and where it holds the placeholder."""
        return [
            (_narrowed(column, field.type), pc.fill_null(self._is(column), False))
            for column, field in zip(columns, declared, strict=True)
        ]

    def _is(self, column: pa.Array) -> pa.Array:
        of = column.type
        if pa.types.is_string(of):
            return pc.is_in(column, self._texts)
        if pa.types.is_binary(of):
            return pc.is_in(column, self._bytes)
        if pa.types.is_struct(of):
            return self._in_struct(column)
        if pa.types.is_list(of):
            return self._in_list(column)
        return pa.nulls(len(column), pa.bool_())

    def _in_struct(self, column: pa.Array) -> pa.Array:
        found = pa.array([False] * len(column), pa.bool_())
        for member, values in zip(column.type, column.flatten(), strict=True):
            if member.name == self._text:
                found = pc.or_(found, values.is_valid())
            elif pa.types.is_binary(member.type):
                found = pc.or_(found, pc.is_in(values, self._shapes))
        return found

    def _in_list(self, column: pa.Array) -> pa.Array:
        of, sizes = column.type.value_type, pc.list_value_length(column)
        if pa.types.is_integer(of):
            return _like(column, pc.equal(sizes, len(self._numbers)), self._numbers.__eq__)
        if pa.types.is_string(of):
            items = set(self._items.to_pylist())
            return _like(column, pc.equal(sizes, 1), lambda found: found[0] in items)
        if pa.types.is_binary(of):
            return _like(column, pc.equal(sizes, 1), self._bytes.to_pylist().__eq__)
        if pa.types.is_struct(of) and [one.name for one in of] == ["key", "value"]:
            return _like(
                column, pc.equal(sizes, 1), lambda found: (found[0] or {}).get("key") == self._text
            )
        return pa.nulls(len(column), pa.bool_())


class UnavailableDecoder:
    """Refuses the rows of another decoder that hold the placeholder."""

    def __init__(
        self,
        declared: pa.Schema,
        decoder_of: Callable[[pa.Schema], Decoder],
        placeholder: Unavailable,
    ) -> None:
        self.schema = declared
        self._placeholder = placeholder
        self._inner = decoder_of(pa.schema(placeholder.wire(declared)))

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """The rows that hold none; the others are UNAVAILABLE."""
        decoded = self._inner.decode(values)
        found = self._placeholder.split_placeholders(decoded.rows.columns, self.schema)
        rows = pa.RecordBatch.from_arrays([column for column, _ in found], schema=self.schema)
        refused = refusals(self.schema.names, [mask for _, mask in found])
        return refusing(Decoded(rows, decoded.kept, decoded.rejected), refused)


def refusals(names: Sequence[str], masks: Sequence[pa.Array]) -> dict[int, Refusal]:
    """Of the rows in which a column holds the placeholder; names the first such column."""
    found: dict[int, Refusal] = {}
    for name, mask in zip(names, masks, strict=True):
        for row in pc.indices_nonzero(mask).to_pylist():
            found.setdefault(row, _refusal(name))
    return found


def _refusal(name: str) -> Refusal:
    return Refusal(
        Reason.UNAVAILABLE,
        f"{name} holds Debezium's placeholder: the source did not send its value. Give the table"
        " REPLICA IDENTITY FULL, or the connector the post-processor that reselects columns",
    )


def _narrowed(column: pa.Array, to: pa.DataType) -> pa.Array:
    """A struct without the member that `wire` added."""
    if column.type == to:
        return column
    members = column.flatten()[: to.num_fields]
    return pa.StructArray.from_arrays(members, fields=list(to), mask=column.is_null())


def _like(column: pa.Array, may_be: pa.Array, test: Callable[[list[Any]], bool]) -> pa.Array:
    """Which of the rows that may be are so."""
    found = [False] * len(column)
    for row in pc.indices_nonzero(pc.fill_null(may_be, False)).to_pylist():
        found[row] = test(column[row].as_py())
    return pa.array(found, pa.bool_())


DELETED = "deleted"
"""The column that tells that an event deletes its row."""

ROWS = tuple(f"$.{at}{row}" for at in ("", "payload.") for row in ("after", "before"))
"""Where a row stands in an event."""

_NUMBERS = dict.fromkeys(("lsn", "pos", "row", "ts_ms"), pa.int64())
"""Of what the source says; the rest is text."""
DELETE = "d"
_CHANGES = ("c", "r", "u", DELETE)


class DebeziumDecoder:
    """The declared columns of the changed row, and DELETED; another decoder reads the event.

    Then what of its `source` is asked for. A row with a value that the event does not tell is
    refused; of a row that is deleted such a value is null. An update that changes a key gives the
    row before it, too, as a deletion in front of the row after it: see `OldKey`.
    """

    def __init__(
        self,
        declared: pa.Schema,
        decoder_of: Callable[[pa.Schema], Decoder],
        source: Sequence[str] = (),
        placeholder: Unavailable | None = None,
        old_key: OldKey | None = None,
    ) -> None:
        told = [pa.field(name, _NUMBERS.get(name, pa.string())) for name in source]
        named = [one.with_name(f"{SOURCE_PREFIX}{one.name}") for one in told]
        self.schema = pa.schema([*declared, pa.field(DELETED, pa.bool_()), *named])
        self._declared = declared
        self._placeholder = placeholder or Unavailable()
        self._old_key = old_key
        row = pa.struct(self._placeholder.wire(declared))
        event = [pa.field("before", row), pa.field("after", row), pa.field("op", pa.string())]
        event += [pa.field("source", pa.struct(told))] if told else []
        self._inner = decoder_of(pa.schema([*event, pa.field("payload", pa.struct(event))]))

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """The rows after the changes, before the deletions; what is no such event is rejected.

        A record without a value, where the other decoder takes it, is a deletion of null columns.
        """
        found = self._inner.decode(values)
        kept = found.kept.to_pylist()
        is_bare = pa.array([values[index] is None for index in kept], pa.bool_())
        before, after, op, *source = _event(found.rows)
        deleted = pc.or_(pc.fill_null(pc.equal(op, DELETE), False), is_bare)
        row = pc.if_else(deleted, before, after)
        is_change = pc.and_(pc.is_in(op, pa.array(_CHANGES)), row.is_valid())
        is_twice = pc.and_(found.rows["op"].is_valid(), found.rows["payload"].is_valid())
        good = pc.or_(pc.and_(is_change, pc.invert(is_twice)), is_bare)
        told = self._placeholder.split_placeholders(row.flatten(), self._declared)
        refused = _refused(op, good) | refusals(
            self._declared.names, [pc.and_(pc.and_not(mask, deleted), good) for _, mask in told]
        )
        of_source = [column for one in source for column in one.flatten()]
        rows = self._rows(told, deleted, of_source)
        old, at = rows.slice(0, 0), list[int]()
        if self._old_key is not None:
            may_be = pc.and_not(pc.and_(before.is_valid(), good), deleted)
            old, at, unknown = self._old_rows(self._old_key, before, rows, may_be)
            refused = unknown | refused
        good_ones = refusing(Decoded(rows, found.kept, found.rejected), refused)
        if not at:
            return good_ones
        taken, came_from = in_front(at, rows.num_rows, refused)
        both = pa.concat_batches([rows, old]).take(taken)
        return Decoded(both, found.kept.take(came_from), good_ones.rejected)

    def _rows(
        self, told: Sequence[tuple[pa.Array, pa.Array]], deleted: pa.Array, source: list[pa.Array]
    ) -> pa.RecordBatch:
        """The rows of these columns, null where a mask says that a value was not sent."""
        values = [pc.if_else(mask, pa.scalar(None, column.type), column) for column, mask in told]
        return pa.RecordBatch.from_arrays([*values, deleted, *source], schema=self.schema)

    def _old_rows(
        self, wanted: OldKey, before: pa.Array, rows: pa.RecordBatch, may_be: pa.Array
    ) -> tuple[pa.RecordBatch, list[int], dict[int, Refusal]]:
        """The rows that updates replace, before which rows they stand, and what is refused."""
        at = pc.indices_nonzero(may_be)
        told = self._placeholder.split_placeholders(before.take(at).flatten(), self._declared)
        after = rows.take(at)
        deleted = pa.array([True] * len(at), pa.bool_())
        old = self._rows(told, deleted, after.columns[len(told) + 1 :])
        changed, places = are_changed(wanted, old, after), at.to_pylist()
        refused = dict(refusals_of(wanted, old, changed))
        moved = [row for row in changed if row not in refused]
        return (
            old.take(pa.array(moved, pa.int64())),
            [places[row] for row in moved],
            {places[row]: refusal for row, refusal in refused.items()},
        )


def _event(rows: pa.RecordBatch) -> list[pa.Array]:
    """Before, after, op, and source if it is asked for: of the value itself or of its payload."""
    payload = rows["payload"]
    inner = payload.flatten()
    is_inside = payload.is_valid()
    return [
        pc.if_else(is_inside, inside, outside)
        for inside, outside in zip(inner, rows.columns[:-1], strict=True)
    ]


def _refused(op: pa.Array, good: pa.BooleanArray) -> dict[int, Refusal]:
    return {
        at: Refusal(
            Reason.NOT_A_CHANGE,
            f"no change of one row: op is {op[at].as_py()!r}, or its row is null",
        )
        for at in pc.indices_nonzero(pc.invert(good)).to_pylist()
    }
