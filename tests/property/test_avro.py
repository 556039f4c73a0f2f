"""Avro: what fastavro writes is read as it was written; any bytes are rows or dead letters."""

from datetime import UTC
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from tests.support.fates import assert_one_fate
from tests.support.registry import framed
from tests.unit.test_avro import Known, record, written

from tidemark.decode import Decoded, _avro
from tidemark.decode._avro import AvroDecoder
from tidemark.settings.fields import arrow_schema

INNER = record(("k", "string"), ("m", ["null", "double"]), name="Inner")
SCHEMA = record(
    ("a", "int"),
    ("skipped", {"type": "array", "items": INNER}),
    ("b", ["null", "long"]),
    ("s", ["string", "null", "int"]),
    ("t", {"type": "long", "logicalType": "timestamp-micros"}),
    ("d", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3}),
    ("o", "boolean"),
    ("f", "float"),
    ("e", {"type": "enum", "name": "E", "symbols": ["x", "y"]}),
    ("h", {"type": "fixed", "name": "H", "size": 2}),
    ("l", {"type": "array", "items": ["null", "int"]}),
    ("m", {"type": "map", "values": "bytes"}),
    ("n", ["null", "Inner"]),
)
FIELDS = {
    "a": "int", "b": "bigint", "s": "string", "t": "timestamp", "d": "decimal(12,3)",
    "o": "boolean", "f": "float", "e": "string", "h": "binary", "l": "array<int>",
    "m": "array<struct<key:string,value:binary>>", "n": "struct<k:string,m:double>",
}  # fmt: skip
DECODER = AvroDecoder(arrow_schema(FIELDS), Known(SCHEMA, record(("a", "long"))), max_bytes=300)  # type: ignore[arg-type]

TEXTS = st.text(st.characters(exclude_characters="\0", codec="utf8"), max_size=5)
INTS = st.integers(-(2**31), 2**31 - 1)
INNERS = st.fixed_dictionaries({"k": TEXTS, "m": st.none() | st.floats(allow_nan=False)})
DATA = st.fixed_dictionaries(
    {
        "a": INTS,
        "skipped": st.lists(INNERS, max_size=2),
        "b": st.none() | st.integers(-(2**63), 2**63 - 1),
        "s": st.none() | TEXTS,
        "t": st.datetimes(timezones=st.just(UTC)),
        "d": st.decimals(-999_999_999, 999_999_999, places=3),
        "o": st.booleans(),
        "f": st.floats(width=32, allow_nan=False),
        "e": st.sampled_from(["x", "y"]),
        "h": st.binary(min_size=2, max_size=2),
        "l": st.lists(st.none() | INTS, max_size=3),
        "m": st.dictionaries(TEXTS, st.binary(max_size=3), max_size=3),
        "n": st.none() | INNERS,
    }
)


def _damaged(schema: Any, datum: dict[str, Any], at: int, junk: bytes, gone: int) -> bytes:
    good = written(schema, datum)
    at %= len(good)
    return good[:at] + junk + good[at + gone :]


NEAR = st.builds(
    _damaged, st.just(SCHEMA), DATA, st.integers(0, 99), st.binary(max_size=3), st.integers(0, 3)
)
VALUES = st.one_of(
    st.none(),
    st.binary(max_size=40),
    st.builds(framed, st.integers(0, 3), st.binary(max_size=60)),
    st.builds(framed, st.just(1), NEAR),
    DATA.map(lambda datum: framed(1, written(SCHEMA, datum))),
)


def _expected(datum: dict[str, Any]) -> dict[str, Any]:
    entries = [{"key": key, "value": value} for key, value in datum["m"].items()]
    return {name: datum[name] for name in FIELDS} | {"m": entries}


@given(st.lists(DATA, max_size=5))
def test_what_a_writer_wrote_is_read(data: list[dict[str, Any]]) -> None:
    """B12"""
    decoded = AvroDecoder(arrow_schema(FIELDS), Known(SCHEMA)).decode(  # type: ignore[arg-type]
        [framed(1, written(SCHEMA, datum)) for datum in data]
    )
    assert decoded.rejected == []
    assert decoded.rows.to_pylist() == [_expected(datum) for datum in data]


@given(st.lists(VALUES, max_size=6))
def test_a_value_has_one_fate_alone_and_in_company(values: list[bytes | None]) -> None:
    """B12: whatever its bytes are."""
    assert_one_fate(DECODER, values)


PLAIN = record(
    ("a", "int"),
    ("b", ["null", "long"]),
    ("c", ["long", "null"]),
    ("gone", ["null", "string"]),
    ("s", ["null", "string"]),
    ("u", "string"),
    ("t", {"type": "long", "logicalType": "timestamp-micros"}),
    ("m", ["null", {"type": "long", "logicalType": "timestamp-millis"}]),
    ("d", {"type": "int", "logicalType": "date"}),
    ("o", ["null", "boolean"]),
    ("f", "float"),
    ("g", "double"),
    ("h", ["null", "double"]),
    ("e", {"type": "enum", "name": "E", "symbols": ["x", "y", "z"]}),
    ("x", "bytes"),
    ("i", "int"),
    ("left", ["null", "double"]),
    ("over", "boolean"),
)
PLAIN_FIELDS = {
    "a": "int", "b": "bigint", "c": "int", "s": "string", "u": "string", "t": "timestamp",
    "m": "timestamp", "d": "date", "o": "boolean", "f": "float", "g": "double", "h": "float",
    "e": "string", "x": "binary", "i": "smallint", "never": "date",
}  # fmt: skip
LONGS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**31) - 2, 2**31 + 2),
    st.integers(0, 300),
    st.sampled_from([-62_135_596_800_000_000, 253_402_300_799_999_999, 253_402_300_799_999]),
)
SHORT = st.text(max_size=4) | st.sampled_from(["", "é" * 40, "\0", "é", "a\0b", "\u00c3"])
REALS = st.floats() | st.sampled_from([3.4028235e38, 3.5e38, -3.4028236e38])
PLAIN_DATA = st.fixed_dictionaries(
    {
        "a": INTS,
        "b": st.none() | LONGS,
        "c": st.none() | LONGS,
        "gone": st.none() | SHORT,
        "s": st.none() | SHORT,
        "u": SHORT,
        "t": LONGS,
        "m": st.none() | LONGS,
        "d": INTS,
        "o": st.none() | st.booleans(),
        "f": st.floats(width=32),
        "g": REALS,
        "h": st.none() | REALS,
        "e": st.sampled_from(["x", "y", "z"]),
        "x": st.binary(max_size=4),
        "i": st.integers(-40_000, 40_000),
        "left": st.none() | REALS,
        "over": st.booleans(),
    }
)
PLAIN_VALUES = st.one_of(
    PLAIN_DATA.map(lambda datum: framed(1, written(PLAIN, datum))),
    st.builds(
        lambda *damage: framed(1, _damaged(PLAIN, *damage)),
        PLAIN_DATA,
        st.integers(0, 99),
        st.binary(max_size=3) | st.sampled_from([b"\xff" * 9, b"\xff" * 10, b"\x80" * 9 + b"\1"]),
        st.integers(0, 3),
    ),
    st.builds(framed, st.integers(0, 2), st.binary(max_size=40)),
    st.none(),
)
PLAIN_DECODER = AvroDecoder(arrow_schema(PLAIN_FIELDS), Known(PLAIN), max_bytes=300)  # type: ignore[arg-type]


def _told(decoded: Decoded) -> object:
    rejected = [(one.index, one.reason, one.detail) for one in decoded.rejected]
    return decoded.kept.to_pylist(), repr(decoded.rows.to_pydict()), rejected


@given(st.lists(PLAIN_VALUES, max_size=8), st.sampled_from([100, 1000]))
def test_the_fast_way_makes_what_the_slow_one_makes(values: list[bytes | None], piece: int) -> None:
    """B12: of sound values and of damaged ones."""
    with patch.object(_avro, "FEW", 1), patch.object(_avro, "PIECE_BYTES", piece):
        fast = PLAIN_DECODER.decode(values)
    assert PLAIN_DECODER._plans.of(1).columns
    assert _told(fast) == _told(PLAIN_DECODER.decode(values))
