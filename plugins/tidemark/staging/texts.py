"""Values of Arrow as texts that Postgres reads: so rows travel in a SELECT, and none is staged."""

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.staging._json_texts import json_text
from tidemark.staging.column import Column


def array_literal(values: pa.Array, column: Column) -> str:
    """The values as one text, which Postgres reads as a text[] and casts to the column's type.

    Raises:
        OverflowError, ValueError: a date in a document lies outside the years 1 to 9999.
    """
    texts = json_text(values) if column.is_json else _texts(values)
    return str(_braced(pa.ListArray.from_arrays([0, len(texts)], _quoted(texts)))[0])


def _texts(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        whole = pa.array(values.to_pylist(), pa.list_(kind.value_type))  # without an offset
        items = _quoted(_texts(whole.values))
        return _braced(pa.ListArray.from_arrays(whole.offsets, items, mask=whole.is_null()))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        data = values.to_pylist()
        return pa.array([None if one is None else rf"\x{one.hex()}" for one in data], pa.string())
    return values.cast(pa.string())


def _braced(lists: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise("{", pc.binary_join(lists, ","), "}", "")


def _quoted(texts: pa.Array) -> pa.Array:
    """Each between quotes, as an element of an array; a null is the bare word."""
    for special in ("\\", '"'):
        texts = pc.replace_substring(texts, special, f"\\{special}")
    return pc.fill_null(pc.binary_join_element_wise('"', texts, '"', ""), "NULL")
