"""Avro: what fastavro writes is read as it was written; any bytes are rows or dead letters."""

from datetime import UTC
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.registry import framed
from tests.unit.test_avro import Known, record, written

from tidemark.decode.avro import AvroDecoder
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


def _damaged(datum: dict[str, Any], at: int, junk: bytes, gone: int) -> bytes:
    good = written(SCHEMA, datum)
    at %= len(good)
    return good[:at] + junk + good[at + gone :]


NEAR = st.builds(_damaged, DATA, st.integers(0, 99), st.binary(max_size=3), st.integers(0, 3))
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
    together = DECODER.decode(values)
    assert len(together.kept) + len(together.rejected) == len(values)
    rejected = {one.index: (one.reason, one.detail) for one in together.rejected}
    rows = dict(zip(together.kept.to_pylist(), map(repr, together.rows.to_pylist()), strict=True))
    for index, value in enumerate(values):
        alone = DECODER.decode([value])
        assert [(one.reason, one.detail) for one in alone.rejected] == [
            rejected[index] for _ in alone.rejected
        ]
        assert list(map(repr, alone.rows.to_pylist())) == [rows[index] for _ in alone.kept]
