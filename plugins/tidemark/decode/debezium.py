"""DebeziumDecoder: the row of a change event, and whether the event deletes it.

An event holds the row before and after the change, and what the change is: `c`reate, `r`ead (of a
snapshot), `u`pdate, `d`elete. With its schema inside, all this is the event's `payload`.
"""

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.decode.outcome import Decoded, Reason, Refusal
from tidemark.decode.port import Decoder
from tidemark.decode.unavailable import Unavailable, refusals, with_refused
from tidemark.settings.decode import SOURCE_PREFIX

DELETED = "deleted"
"""The column that tells that an event deletes its row."""

_NUMBERS = dict.fromkeys(("lsn", "pos", "row", "ts_ms"), pa.int64())
"""Of what the source says; the rest is text."""
_DELETE = "d"
_CHANGES = pa.array(["c", "r", "u", _DELETE])


class DebeziumDecoder:
    """The declared columns of the changed row, and DELETED; another decoder reads the event.

    Then what of its `source` is asked for. A row with a value that the event does not tell is
    refused; of a row that is deleted such a value is null.
    """

    def __init__(
        self,
        declared: pa.Schema,
        decoder_of: Callable[[pa.Schema], Decoder],
        source: Sequence[str] = (),
        placeholder: Unavailable | None = None,
    ) -> None:
        told = [pa.field(name, _NUMBERS.get(name, pa.string())) for name in source]
        named = [one.with_name(f"{SOURCE_PREFIX}{one.name}") for one in told]
        self.schema = pa.schema([*declared, pa.field(DELETED, pa.bool_()), *named])
        self._declared = declared
        self._placeholder = placeholder or Unavailable()
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
        deleted = pc.or_(pc.fill_null(pc.equal(op, _DELETE), False), is_bare)
        row = pc.if_else(deleted, before, after)
        is_change = pc.and_(pc.is_in(op, _CHANGES), row.is_valid())
        is_twice = pc.and_(found.rows["op"].is_valid(), found.rows["payload"].is_valid())
        good = pc.or_(pc.and_(is_change, pc.invert(is_twice)), is_bare)
        told = self._placeholder.found(row.flatten(), self._declared)
        refused = _refused(op, good) | refusals(
            self._declared.names, [pc.and_(pc.and_not(mask, deleted), good) for _, mask in told]
        )
        rows = pa.RecordBatch.from_arrays(
            [
                *(pc.if_else(mask, pa.scalar(None, column.type), column) for column, mask in told),
                deleted,
                *(column for one in source for column in one.flatten()),
            ],
            schema=self.schema,
        )
        good = pa.array([row not in refused for row in range(len(kept))], pa.bool_())
        rejected = with_refused(found.rejected, kept, refused)
        return Decoded(rows.filter(good), found.kept.filter(good), rejected)


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
