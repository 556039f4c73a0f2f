"""Protobuf: what its library writes is read as it was written; any bytes are rows or letters."""

from datetime import UTC, datetime
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.fates import assert_one_fate
from tests.support.protobuf import FIRST, entry, enum, field, file, made, message
from tests.support.registry import framed
from tests.unit.test_protobuf import Known

from tidemark.decode._protobuf import Messages, ProtobufDecoder, Registered
from tidemark.settings.fields import arrow_schema

INNER = message("In", field("k", "string"), field("m", "double", optional=True))
SCHEMA = file(
    message(
        "M",
        field("a", "int32"),
        field("skipped", ".t.In", many=True),
        field("b", "int64", optional=True),
        field("s", "string"),
        field("t", ".google.protobuf.Timestamp"),
        field("o", "bool"),
        field("f", "float"),
        field("e", "enum .t.E"),
        field("l", "sint32", many=True),
        field("m", ".t.M.MEntry", many=True),
        field("n", ".t.In"),
        nested=(entry("MEntry", "string", "bytes"),),
    ),
    INNER,
    enum_type=[enum("E", "x", "y")],
    dependency=["google/protobuf/timestamp.proto"],
)
FIELDS = {
    "a": "int", "b": "bigint", "s": "string", "t": "timestamp", "o": "boolean", "f": "float",
    "e": "string", "l": "array<int>", "m": "array<struct<key:string,value:binary>>",
    "n": "struct<k:string,m:double>",
}  # fmt: skip
COLUMNS = arrow_schema(FIELDS)
KNOWN: Any = Known(SCHEMA, file(message("M", field("a", "string"))))
DECODER = ProtobufDecoder(
    COLUMNS, Registered(KNOWN, partial(Messages, schema=COLUMNS)), max_bytes=300
)
MESSAGE = made(SCHEMA)

TEXTS = st.text(st.characters(exclude_characters="\0", codec="utf8"), max_size=5)
INTS = st.integers(-(2**31), 2**31 - 1)
INNERS = st.fixed_dictionaries({"k": TEXTS, "m": st.none() | st.floats(allow_nan=False)})
DATA = st.fixed_dictionaries(
    {
        "a": INTS,
        "skipped": st.lists(INNERS, max_size=2),
        "b": st.none() | st.integers(-(2**63), 2**63 - 1),
        "s": TEXTS,
        "t": st.none() | st.datetimes(timezones=st.just(UTC)),
        "o": st.booleans(),
        "f": st.floats(width=32, allow_nan=False),
        "e": st.sampled_from(["x", "y"]),
        "l": st.lists(INTS, max_size=3),
        "m": st.dictionaries(TEXTS, st.binary(max_size=3), max_size=3),
        "n": st.none() | INNERS,
    }
)


def written(datum: dict[str, Any]) -> bytes:
    """As the library writes it."""
    data: bytes = MESSAGE(**datum).SerializeToString()
    return data


def _damaged(datum: dict[str, Any], at: int, junk: bytes, gone: int) -> bytes:
    good = written(datum)
    at %= len(good) + 1
    return good[:at] + junk + good[at + gone :]


NEAR = st.builds(_damaged, DATA, st.integers(0, 99), st.binary(max_size=3), st.integers(0, 3))
VALUES = st.one_of(
    st.none(),
    st.binary(max_size=40),
    st.builds(framed, st.integers(0, 3), st.binary(max_size=60)),
    st.builds(framed, st.integers(1, 2), NEAR, st.just(FIRST)),
    DATA.map(lambda datum: framed(1, written(datum), FIRST)),
)


def _expected(datum: dict[str, Any]) -> dict[str, Any]:
    entries = [{"key": key, "value": datum["m"][key]} for key in sorted(datum["m"])]
    return {name: datum[name] for name in FIELDS} | {"m": entries}


@given(st.lists(DATA, max_size=5))
def test_what_a_writer_wrote_is_read(data: list[dict[str, Any]]) -> None:
    """B12"""
    read = ProtobufDecoder(COLUMNS, Registered(KNOWN, partial(Messages, schema=COLUMNS)))
    decoded = read.decode([framed(1, written(datum), FIRST) for datum in data])
    assert decoded.rejected == []
    assert decoded.rows.to_pylist() == [_expected(datum) for datum in data]
    for row in decoded.rows.to_pylist():
        assert row["t"] is None or isinstance(row["t"], datetime)


@given(st.lists(VALUES, max_size=6))
def test_a_value_has_one_fate_alone_and_in_company(values: list[bytes | None]) -> None:
    """B12: whatever its bytes are."""
    assert_one_fate(DECODER, values)
