"""AvroDecoder: values in Avro with the id of their writer's schema, into the declared columns.

What becomes of a value is what reading it by itself makes of it. Many of one schema are read
together, column by column, where that is the same. Schemas come from the registry, once for each
process.

Of a writer's schema is left out what Avro's specification lets readers ignore. Writers' libraries
register logical types that their own rules forbid (Oracle's NUMBER has 64 digits of which 127 are
behind the point), and defaults of another type. To a reader of the writer's own bytes neither means
anything, so neither may make a schema unreadable.
"""

import json
import struct
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from math import floor, log10
from typing import Any

import pyarrow as pa

from tidemark.decode._avro_columns import AvroColumns, columns
from tidemark.decode._avro_plain import Read, invalid
from tidemark.decode._avro_reader import Readers
from tidemark.decode._plans import MOST_UNKNOWN, Plans
from tidemark.decode.framing import SchemaId, commonest, unframed
from tidemark.decode.port import (
    MAX_VALUE_BYTES,
    Decoded,
    Reason,
    Refusal,
    Rejected,
    in_order,
    within,
)
from tidemark.decode.registry import Registry, Written, flattened
from tidemark.errors import packages_of

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
    "uuid": lambda schema: _of("string")(schema) or _of("fixed", 16)(schema),
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


FEW = 16
"""Fewer values of a schema are read one by one."""

PIECE_BYTES = 4 << 20
"""About so many bytes of values are read together: that takes some ten times their memory."""

ROWS_BYTES = 256 << 10
"""About so many bytes of values are Python's objects at a time: that takes a hundred times more."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How values of one writer's schema are read."""

    read: Read
    columns: AvroColumns | None
    """The fast way, if there is one."""


class AvroDecoder:
    """Reads Avro into the columns of `schema`.

    A field that the writer does not have is null, one that is not declared is passed over.
    """

    def __init__(
        self,
        schema: pa.Schema,
        registry: Registry,
        *,
        max_bytes: int = MAX_VALUE_BYTES,
        takes_null: bool = False,
        refuses_new: bool = False,
        rows: Collection[str] = (),
        refuses_deletion: bool = False,
    ) -> None:
        """`rows` and `refuses_deletion`: see `Readers`."""
        self.schema = schema
        self._type = pa.struct(list(schema))
        self._registry = registry
        self._max_bytes = max_bytes
        self._takes_null = takes_null
        self._readers = partial(
            Readers, refuses_new=refuses_new, rows=rows, refuses_deletion=refuses_deletion
        )
        self._plans = Plans(self._made)

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """The rows of the good values, in order, and the others with their reasons.

        Raises:
            Unreachable: the registry does not answer.
        """
        self._plans.look_for(commonest(values, MOST_UNKNOWN))
        batches, kept, others = self._read_together(values)
        rows: list[dict[str, Any]] = []
        rejected: list[Rejected] = []
        size = 0
        for index in others:
            try:
                rows.append(self._row(values[index]))
                kept.append(index)
            except Refusal as refusal:
                rejected.append(refusal.of(index))
            size += len(values[index] or b"")
            if size >= ROWS_BYTES:
                batches.append(pa.RecordBatch.from_pylist(rows, self.schema))
                rows, size = [], 0
        self._plans.forget_unknown()  # asked once a block
        batches.append(pa.RecordBatch.from_pylist(rows, self.schema))
        return Decoded(in_order(batches, kept), pa.array(sorted(kept), pa.int64()), rejected)

    def _read_together(
        self, values: Sequence[bytes | None]
    ) -> tuple[list[pa.RecordBatch], list[int], list[int]]:
        """What is read fast: its rows and their indices; and the others' indices, in order."""
        batches: list[pa.RecordBatch] = []
        kept: list[int] = []
        others: list[int] = []
        groups, alone = self._by_prefix(values)
        for (prefix, _), indices in groups.items():
            fast = self._columns(unframed(prefix)[0]) if len(indices) >= FEW else None
            if fast is None:
                alone += indices
                continue
            batch, good = fast.rows([values[index] or b"" for index in indices], len(prefix))
            batches.append(batch)
            kept += compress(indices, good)
            others += compress(indices, ~good)
        return batches, kept, sorted(alone + others)

    def _by_prefix(
        self, values: Sequence[bytes | None]
    ) -> tuple[dict[tuple[bytes, int], list[int]], list[int]]:
        """Indices by what stands in front of their values, in pieces; and of those read alone."""
        groups: dict[tuple[bytes, int], list[int]] = {}
        alone, largest, size = [], min(PIECE_BYTES, self._max_bytes), 0
        for index, value in enumerate(values):
            if value and value[0] == 0 and 5 < len(value) <= largest:
                groups.setdefault((value[:5], size // PIECE_BYTES), []).append(index)
                size += len(value)
            else:
                alone.append(index)
        return groups, alone

    def _columns(self, schema_id: SchemaId) -> AvroColumns | None:
        try:
            return self._plans.of(schema_id).columns
        except Refusal:
            return None

    def _row(self, value: bytes | None) -> dict[str, Any]:
        if value is None and self._takes_null:
            return {}
        value = within(value, self._max_bytes)
        schema_id, at = unframed(value)
        return _datum(self._plans.of(schema_id).read, value, at)

    def _made(self, schema_id: SchemaId) -> Plan:
        schema, named = parsed(self._registry.schema(schema_id))
        try:
            readers = self._readers(named)
            read = readers.datum(schema, self._type)
            fast = None if readers.looks_for_deletions else columns(schema, named, self.schema)
            return Plan(read, fast)
        except Refusal:
            raise
        except Exception as error:  # a schema is what its writer pleases
            raise _no_schema(error) from error


def parsed(written: Written) -> tuple[Any, dict[str, Any]]:
    """A schema as fastavro's parser gives it, and every type that has a name, by its full name.

    Raises:
        Refusal: it is no schema of Avro.
        MissingExtra: fastavro is not installed.
    """
    with packages_of("registry", "format avro"):
        from fastavro.schema import parse_schema
    written.refuse_other_than("AVRO")
    named: dict[str, Any] = {}
    try:
        for one in flattened(written):
            schema = parse_schema(plain(json.loads(one.text)), named_schemas=named)
    except Exception as error:
        raise _no_schema(error) from error
    return schema, named


def _no_schema(error: Exception) -> Refusal:
    return Refusal(Reason.OTHER_SCHEMA, f"{type(error).__name__}: {error}")


def _datum(read: Read, value: bytes, at: int) -> dict[str, Any]:
    try:
        found, end = read(value, at)
    except (IndexError, struct.error):
        raise invalid("the value ends too early") from None
    if end != len(value):
        raise Refusal(Reason.TRAILING_DATA, f"{len(value) - end} bytes after the datum")
    if found is None:
        raise Refusal(Reason.WRONG_TYPE, "the value is Avro's null")
    row: dict[str, Any] = found
    return row
