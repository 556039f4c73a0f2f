"""A record's fate and value are the same alone and in any company."""

import json
from collections.abc import Sequence
from itertools import chain
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidemark.decode import JsonDecoder, RawDecoder, Reason
from tidemark.decode._no_field import NoFieldDecoder
from tidemark.decode.port import Decoder
from tidemark.settings.fields import arrow_schema

FIELDS = {
    "a": "int",
    "b": "bigint",
    "c": "smallint",
    "s": "string",
    "t": "timestamp",
    "d": "date",
    "f": "float",
    "g": "double",
    "m": "decimal(10,2)",
    "o": "boolean",
    "x": "binary",
    "l": "array<int>",
    "n": "struct<u:string,v:array<timestamp>,w:date>",
    "z": "array<struct<k:decimal(4,1),y:binary>>",
}
DECODER = JsonDecoder(arrow_schema(FIELDS), max_bytes=600)
LEFT_TO_READER = {
    **{name: FIELDS[name] for name in "abcstdfgol"},
    "n": "struct<u:string,v:array<timestamp>,w:date,x:array<float>>",
}
QUICK = JsonDecoder(arrow_schema(LEFT_TO_READER), max_bytes=600)
"""Reads a poll's values at once; checks each value for its kinds only where that is refused."""
THOROUGH = JsonDecoder(arrow_schema({**LEFT_TO_READER, "never": "binary"}), max_bytes=600)
"""The same columns, and one for whose sake each value is checked for its kinds."""
WHOLE = NoFieldDecoder(DECODER, [*FIELDS])
"""As a pipeline has it: a value with none of the fields is refused."""

ODD_TEXTS = ["\0", "a\0b", "\\u0000", "\\\\u0000", "é", "\ud83d\ude00", '"', "\n", "{", "}["]
TEXTS = st.one_of(st.text(max_size=4), st.sampled_from(ODD_TEXTS))
TIMES = st.sampled_from(
    [
        "2024-01-01T00:00:00Z",
        "2024-01-01 00:00:00",
        "2024-01-01",
        "2024-01-01T05",
        "2024-01-01T05:06+02",
        "2024-01-01T05:06:07.123456-0330",
        "2024-01-01T05:06:07.1",
        "2024-01-01T05:06:07.1234567Z",
        "2024-02-30T00:00:00Z",
        "2024-02-30",
        "2024-01-01Z",
        "2024-01-01T24:00:00",
        "0000-01-01",
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+05:00",
        "9999-12-31T23:59:59-05:00",
        "300000-01-01",
        "infinity",
        "",
        "2024-01-01T00:00:00Z\n",
    ]
)
NUMBERS = st.sampled_from(
    [
        "0", "-0", "1", "-1", "7", "1.0", "1e2", "1.5", "0.05", "1.239", "1E5", "32768",
        "2147483647", "2147483648", "9223372036854775807", "9223372036854775808",
        "99999999999999999999", "1e38", "3.5e38", "1e39", "1e400", "-1e400", "1e-400", "01", "+1",
        ".5", "1.", "-", "NaN", "Infinity", "-Infinity", "0x10", "123456789.12",
    ]
)  # fmt: skip
OTHER_TEXTS = st.sampled_from(["1.5", "1.239", "1e3", "NaN", "YQ==", "YQ", "!"])
STRINGS = st.one_of(TEXTS, TIMES, OTHER_TEXTS)
RAW_STRINGS = st.sampled_from(
    [b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\\udc00"', b'"\xff"', b'"\xed\xa0\x80"', b'"\0"', b'"']
)
SCALARS = st.one_of(
    STRINGS.map(lambda text: json.dumps(text).encode()),
    STRINGS.map(lambda text: json.dumps(text, ensure_ascii=False).encode("utf8", "surrogatepass")),
    RAW_STRINGS,
    NUMBERS.map(str.encode),
    st.sampled_from([b"null", b"true", b"false", b"nul", b"/**/1", b""]),
)
SPACE = st.sampled_from([b"", b"", b"", b" ", b"\n", b"\r\n", b"\t", b"\x0b", b"\0"])


Bytes = st.SearchStrategy[bytes]


def _list(items: Bytes) -> Bytes:
    return st.lists(items, max_size=3).map(lambda parts: b"[" + b",".join(parts) + b"]")


def _object(keys: Bytes, values: Bytes) -> Bytes:
    pairs = st.builds(lambda k, s, v: b'"' + k + b'"' + s + b":" + v, keys, SPACE, values)
    return st.lists(pairs, max_size=4).map(lambda parts: b"{" + b",".join(parts) + b"}")


KEYS = st.sampled_from(
    [*(name.encode() for name in FIELDS), b"\\u0061", b"A", b"q", b"", b"u", b"v"]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        _list(inner), _object(st.sampled_from([b"u", b"v", b"w", b"x", b"k", b"y", b"q"]), inner)
    ),
    max_leaves=4,
)
FITTING = {
    "s": TEXTS.map(json.dumps),
    "t": TIMES.map(json.dumps),
    "d": TIMES.map(json.dumps),
    "a": st.integers(-9, 9).map(str),
    "f": NUMBERS,
    "g": NUMBERS,
    "m": st.one_of(NUMBERS, st.sampled_from(['"1.5"', '"1.239"', '"x"', "1.25"])),
    "x": st.sampled_from(['"YQ=="', '"YQ"', '""', '"\\u0000"']),
    "n": st.builds(
        lambda u, v, w: json.dumps({"u": u, "v": [v, None], "w": w}), TEXTS, TIMES, TIMES
    ),
    "z": st.sampled_from(["[]", "null", '[null,{"k":1.5}]', '[{"k":"1.25"}]', '[{"y":"YQ=="}]']),
}
SOUND = {
    "a": st.integers(-(2**31), 2**31 - 1).map(str),
    "b": st.integers(-(2**63), 2**63 - 1).map(str),
    "s": st.text(st.characters(exclude_characters="\0", codec="utf8")).map(json.dumps),
    "t": st.datetimes().map(lambda moment: json.dumps(moment.isoformat())),
    "d": st.dates().map(lambda day: json.dumps(day.isoformat())),
    "f": st.floats(width=32, allow_nan=False, allow_infinity=False).map(json.dumps),
    "g": st.floats(allow_nan=False, allow_infinity=False).map(json.dumps),
    "m": st.decimals(-99999999, 99999999, places=2).map(str),
    "o": st.sampled_from(["true", "false"]),
    "l": st.lists(st.integers(-9, 9), max_size=3).map(json.dumps),
    "n": st.just('{"u":"x","v":["2024-01-01T00:00Z",null],"w":"2024-02-29"}'),
    "z": st.sampled_from(["[]", "null", '[null,{"k":1.5}]', '[{"k":"1.5","y":"YQ=="}]']),
}


def _document(fields: dict[str, str]) -> bytes:
    return ("{" + ",".join(f'"{key}":{value}' for key, value in fields.items()) + "}").encode()


NEAR = st.fixed_dictionaries({}, optional=FITTING).map(_document)
GOOD = st.fixed_dictionaries({}, optional=SOUND).map(_document)
OBJECTS = st.one_of(_object(KEYS, VALUES), NEAR, GOOD)
ODD = st.sampled_from(
    [
        None, b"", b" \n", b"null", b"[]", b"1", b'"x"', b"{}", b" {} ", b"{}\n", b"\xef\xbb\xbf{}",
        b"{}{}", b"{} {}", b"{}\n{}", b"{}\0", b'{"a":1}x', b'{"a":1', b'"b":2}', b",", b"}", b"{",
        b'{"l":[', b"]}", b'{"n":{', b'{"z":[{"k":1},', b'{"k":2}]}', b'{"s":"', b'"}', b'{"s":"\\',
        b'{"a":1,"a":2}', b'{"q":1,"q":2}', b'{"a":null,"a":1}', b'{"n":{"u":"1","u":"2"}}',
        b'{"q":1e400}', b'{"q":"\xff"}', b'{"\xff":1}', b'{"q":"\\u0000"}', b'{"s":"\\u0000"}',
        b'{"a":1}//c', b"{'a':1}", b"{a:1}", b'{"a":1,}', b'{"q":"' + b"x" * 600 + b'"}',
        b"{" + b'"q":{' * 63 + b"}" * 64, b"{" + b'"q":{' * 64 + b"}" * 65,
        b'{"q":' + b"[" * 63 + b"]" * 63 + b"}", b'{"q":' + b"[" * 64 + b"]" * 64 + b"}",
        b'{"q":' + b"[" * 250, b'{"q":"' + b"[" * 250 + b'"}', b'{"l":[' + b"[]," * 80 + b"1]}",
    ]
)  # fmt: skip


@st.composite
def _torn(draw: st.DrawFn) -> list[bytes]:
    whole = draw(OBJECTS)
    cut = draw(st.integers(0, len(whole)))
    return [whole[:cut], whole[cut:]]


VALUE_GROUPS = st.one_of(
    OBJECTS.map(lambda value: [value]),
    st.lists(GOOD, max_size=3),
    ODD.map(lambda value: [value]),
    _torn(),
    st.builds(lambda a, s, b: [a + s + b], OBJECTS, SPACE, OBJECTS),
)
COMPANIES = st.lists(VALUE_GROUPS, max_size=8).map(lambda groups: [*chain(*groups)])


def fates(decoder: Decoder, values: Sequence[bytes | None]) -> dict[int, Any]:
    """Index -> the row or the refusal, having checked that no value has two or none."""
    decoded = decoder.decode(values)
    kept = decoded.kept.to_pylist()
    lost = [one.index for one in decoded.rejected]
    assert kept == sorted(kept)
    assert lost == sorted(lost)
    assert sorted(kept + lost) == list(range(len(values)))
    assert decoded.rows.schema.equals(decoder.schema)
    assert len(decoded.rows) == len(kept)
    decoded.rows.validate(full=True)
    rows = {index: decoded.rows.slice(row, 1) for row, index in enumerate(kept)}
    return rows | {one.index: (one.reason, one.detail) for one in decoded.rejected}


@given(COMPANIES)
@example([b'{"z":[{"k":1},', b'{"k":2}]}', b'{"a":3}'])
@example([b"", b"{}{}", b'{"a":3}'])
@example([b'{"t":"2024-01-01"}', b'{"t":"2024-01-01T00:00:00Z"}', b'{"t":"x"}'])
@example([b'{"m":1.5}', b'{"m":"1.5"}', b'{"m":1.239}', b'{"a":1}'])
@example([b'{"f":3.5e38}'])
@example([b'{"n":{"x":[null,1,3.5e38]}}', b'{"n":null}'])
@example([b'{"g":1e400}', b'{"g":1}'])
@example([b"null"])
@example([b"{", b"}", b"{}{}"])
@example([b'{"s":"\\u0000"}'])
@example([b'{"s":"\\ud800"}'])
@example([b'{"t":"2024-02-30"}'])
@example([b'{"a":null,"a":1}'])
@example([b'{"q":1}', b'{"a":null}', b"{}", b'{"a":1}'])
@pytest.mark.parametrize(
    "decoder", [DECODER, QUICK, WHOLE], ids=["every kind", "quick", "with a field"]
)
def test_a_records_fate_and_value_are_the_same_alone_and_in_any_company(
    decoder: Decoder, values: list[bytes | None]
) -> None:
    together = fates(decoder, values)
    for index, value in enumerate(values):
        assert is_same(together[index], fates(decoder, [value])[0])


@given(COMPANIES)
@example([b'{"q":1}', b'{"\\u0061":null}', b"{}", b'{"a":1}', b'{"A":1}', b'{"n":{"q":1}}'])
def test_no_value_but_one_without_a_declared_field_is_refused_for_that(
    values: list[bytes | None],
) -> None:
    """B20, G162: all others have the fate that they have without the rule."""
    known, told = fates(DECODER, values), fates(WHOLE, values)
    for index, value in enumerate(values):
        is_row = not isinstance(known[index], tuple)
        if is_row and not {*json.loads(value or b"")} & {*FIELDS}:
            assert told[index][0] is Reason.NO_DECLARED_FIELD
        else:
            assert is_same(told[index], known[index])


@given(COMPANIES)
@example([b'{"f":3.5e38}'])
@example([b'{"n":{"x":[null,1,3.5e38]}}', b'{"n":null}'])
@example([b'{"n":[]}', b'{"l":[[1]]}', b'{"l":{}}', b'{"n":{"u":1}}'])
@example([b'{"g":1e400}', b'{"g":1}'])
@example([b"null"])
@example([b"{}{}", b'{"a":1}'])
@example([b"{", b"}", b"{}{}"])
@example([b'{"s":"\\u0000"}'])
@example([b'{"q":"\xff"}'])
@example([b'{"t":"2024-02-30"}'])
@example([b'{"a":null,"a":1}'])
@example([b'{"a":1.0}', b'{"s":1}'])
def test_what_is_read_before_kinds_are_checked_is_what_passes_the_check(
    values: list[bytes | None],
) -> None:
    """G139: the other decoder has one more column, for whose sake it checks each value."""
    quick, thorough = fates(QUICK, values), fates(THOROUGH, values)
    for index, fate in thorough.items():
        row = fate if isinstance(fate, tuple) else fate.select(LEFT_TO_READER)
        assert is_same(quick[index], row)


def is_same(one: Any, other: Any) -> bool:
    """Whether two fates are the same refusal, or the same row."""
    return bool(one == other if isinstance(other, tuple) else one.equals(other))


@given(st.lists(st.one_of(st.none(), st.binary(max_size=9)), max_size=9))
def test_the_raw_decoder_keeps_each_value_as_it_is_up_to_its_limit(
    values: list[bytes | None],
) -> None:
    decoder = RawDecoder(max_bytes=6)
    for index, fate in fates(decoder, values).items():
        value = values[index]
        if value is not None and len(value) > 6:
            assert fate[0] is Reason.TOO_LARGE
        else:
            assert fate.to_pylist() == [{"value": value}]
