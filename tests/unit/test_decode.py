import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import json as arrow_json
from tests.support.block_sizes import block_sizes

from tidemark.decode import JsonDecoder, RawDecoder, Reason
from tidemark.decode import _json as json_module
from tidemark.decode.port import Refusal
from tidemark.settings.fields import arrow_schema

NOON = datetime(2024, 2, 29, 12, tzinfo=UTC)


def decoder(*, max_bytes: int = 10_000, **fields: str) -> JsonDecoder:
    return JsonDecoder(arrow_schema(fields), max_bytes=max_bytes)


def rejected(one: JsonDecoder, *values: bytes | None) -> list[Reason]:
    """The refusals, where decoding all at once must say the same as decoding each alone."""
    together = one.decode([*values, b"{}"])
    alone = [one.decode([value]).rejected[0] for value in values]
    assert [(r.reason, r.detail) for r in together.rejected] == [
        (r.reason, r.detail) for r in alone
    ]
    assert together.kept.to_pylist() == [len(values)]
    return [one.reason for one in together.rejected]


@pytest.mark.parametrize(
    ("type_name", "text", "expected"),
    [
        ("boolean", "true", True),
        ("smallint", "-32768", -32768),
        ("int", "2147483647", 2147483647),
        ("bigint", "-9223372036854775808", -(2**63)),
        ("float", "1e38", 9.999999680285692e37),
        ("double", "1", 1.0),
        ("double", "1e-400", 0.0),
        ("decimal(10,2)", "1.5", Decimal("1.50")),
        ("decimal(10,2)", '"1.5"', Decimal("1.50")),
        ("decimal(4,2)", "12.3400", Decimal("12.34")),
        ("decimal(4,2)", '"12.3400"', Decimal("12.34")),
        ("decimal(3,1)", "-1.000", Decimal("-1.0")),
        ("decimal(6,0)", "247217.0", Decimal("247217")),
        ("decimal(6,0)", "247217000e-3", Decimal("247217")),
        ("decimal(38,0)", "9" * 38 + "." + "0" * 38, Decimal("9" * 38)),
        ("decimal(38,38)", "1" + "0" * 9 + "e-45", Decimal("1e-36")),
        ("array<decimal(2,0)>", "[1.00,null]", [Decimal(1), None]),
        ("string", '"\\ud83d\\ude00\\\\u0000"', "😀\\u0000"),
        ("binary", '"AP8="', b"\x00\xff"),
        ("date", '"2024-02-29"', date(2024, 2, 29)),
        ("date", '"2024-02-29Z"', date(2024, 2, 29)),
        ("timestamp", '"2024-02-29T12:00:00Z"', NOON),
        ("timestamp", '"2024-02-29 12:00"', NOON),
        ("timestamp", '"2024-02-29T14:00:00.000000+02:00"', NOON),
        ("timestamp", '"2024-02-29"', NOON.replace(hour=0)),
        ("timestamp", '"2024-02-29T12:00:00.000000000Z"', NOON),
        ("timestamp", '"2024-02-29T14:00:00.0000000+02:00"', NOON),
        ("timestamp", '"2024-02-29t12:00:00z"', NOON),
        ("timestamp", '"2024-02-29Z"', NOON.replace(hour=0)),
        ("array<date>", '["2024-02-29",null]', [date(2024, 2, 29), None]),
        ("struct<d:date>", '{"d":"2024-02-29Z"}', {"d": date(2024, 2, 29)}),
        ("array<timestamp>", '["2024-02-29T12:00:00.0000000Z"]', [NOON]),
        ("array<struct<b:binary>>", '[null,{"b":"YQ=="},{}]', [None, {"b": b"a"}, {"b": None}]),
        ("struct<t:timestamp>", '{"t":"2024-02-29 12:00","q":1}', {"t": NOON}),
        ("struct<d:date>", "null", None),
    ],
)
def test_a_value_is_read_into_its_declared_type(type_name: str, text: str, expected: Any) -> None:
    one = decoder(a=type_name)
    decoded = one.decode([b'{"a":%s}' % text.encode(), b'{"q":1}', b'{"a":null}'])
    assert decoded.rows.schema == one.schema
    assert decoded.rows.column("a").to_pylist() == [expected, None, None]


@pytest.mark.parametrize(
    ("type_name", "text"),
    [("binary", '"?"'), ("decimal(4,2)", "0.005"), ("array<binary>", '["?"]'), ("float", "1e39")],
)
def test_what_arrows_reader_takes_is_rejected_in_the_only_column_too(
    type_name: str, text: str
) -> None:
    """G139: each is judged as the values of other columns are."""
    one = decoder(a=type_name)
    decoded = one.decode([b"{}", b'{"a":%s}' % text.encode()])
    assert decoded.kept.to_pylist() == [0]
    assert [rejected.index for rejected in decoded.rejected] == [1]


@pytest.mark.parametrize(
    ("reason", "values"),
    [
        (Reason.NULL_VALUE, [None]),
        (Reason.EMPTY_VALUE, [b"", b" \r\n\t"]),
        (Reason.INVALID_JSON, [b"{", b"{'a':1}", b'{"a":NaN}', b'{"a":01}', b"\xef\xbb\xbf{}"]),
        (Reason.INVALID_JSON, [b'{"q":"' + b"[" * 70, b'{"q":"' + b"[" * 70 + b"\\"]),
        (Reason.INVALID_JSON, [b'{"s":"\\ud800"}', b'{"s":"a\nb"}', b'{"s":"\0"}']),
        (Reason.TRAILING_DATA, [b"{}{}", b"{}\n{}", b"{} x", b"{}\0", b"{}//"]),
        (Reason.NOT_AN_OBJECT, [b"null", b"[]", b"1", b'"x"']),
        (Reason.INVALID_UTF8, [b'{"s":"\xff"}', b'{"q":"\xed\xa0\x80"}', b'{"\xff":1}']),
        (Reason.DUPLICATE_KEY, [b'{"a":1,"a":1}', b'{"a":1,"\\u0061":2}', b'{"n":{"x":1,"x":2}}']),
        (Reason.WRONG_TYPE, [b'{"a":"1"}', b'{"a":1.0}', b'{"s":1}', b'{"l":[true]}', b'{"n":[]}']),
        (Reason.WRONG_TYPE, [b'{"t":1}', b'{"t":"noon"}', b'{"t":"2024-02-30"}', b'{"d":"noon"}']),
        (Reason.WRONG_TYPE, [b'{"t":"2024-01-01T00:00:60"}', b'{"d":"2024-01-01T00:00"}']),
        (
            Reason.WRONG_TYPE,
            [b'{"t":"2016-12-31T23:59:60Z"}', b'{"t":"2017-01-01t00:59:60+01:00"}'],
        ),
        (
            Reason.OUT_OF_RANGE,
            [b'{"t":"2024-01-01T00:00:00.0000001Z"}', b'{"u":["2024-01-01T00:00:00.0000001Z"]}'],
        ),
        (Reason.WRONG_TYPE, [b'{"x":"?"}', b'{"m":"x"}', b'{"n":{"d":"noon"}}']),
        (
            Reason.OUT_OF_RANGE,
            [b'{"a":2147483648}', b'{"a":-1e400}', b'{"f":1e39}', b'{"q":1e400}'],
        ),
        (
            Reason.OUT_OF_RANGE,
            [b'{"m":0.005}', b'{"m":-100}', b'{"m":"1e99"}', b'{"m":12345}', b'{"m":1e-44}'],
        ),
        (Reason.OUT_OF_RANGE, [b'{"%s":%s}' % (k, b"1" * 5000) for k in (b"a", b"m", b"f")]),
        (
            Reason.OUT_OF_RANGE,
            [
                b'{"m":1e99999999999999999999}',
                b'{"m":0e99999999999999999999}',
                b'{"v":[{"w":1e-99999999999999999999}]}',
                b'{"m":1.%s}' % (b"0" * 5000),
            ],
        ),
        (Reason.WRONG_TYPE, [b'{"m":" 1"}', b'{"m":"1_0"}', b'{"m":"NaN"}', b'{"m":true}']),
        (Reason.OUT_OF_RANGE, [b'{"t":"0000-12-31"}', b'{"t":"9999-12-31T23:59:59-01"}']),
        (Reason.OUT_OF_RANGE, [b'{"t":"300000-01-01"}', b'{"d":"0000-01-01"}']),
        (Reason.OUT_OF_RANGE, [b'{"n":{"d":"0000-01-01"}}', b'{"u":["0000-01-01"]}']),
        (Reason.NUL_IN_TEXT, [b'{"s":"a\\u0000"}', b'{"n":{"s":"\\\\\\u0000"}}']),
        (Reason.TOO_LARGE, [b'{"q":"%s"}' % (b"x" * 10_000), b"x" * 10_001]),
        (
            Reason.TOO_DEEP,
            [
                b'{"q":"]","r":' + b"[" * 64 + b"]" * 64 + b"}",
                b'{"q":' + b"[" * 64 + b"]" * 64 + b"}",
                b'{"q":' * 65,
                b'{"q":' * 1500,
            ],
        ),
    ],
)
@pytest.mark.parametrize("is_dumb", [False, True], ids=["told", "not told"])
def test_a_bad_value_is_rejected_with_its_reason(
    reason: Reason, values: list[bytes | None], is_dumb: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G199: whatever msgspec and Arrow say of it."""
    nested = "struct<x:int,d:date,s:string>"
    one = decoder(a="int", f="float", s="string", t="timestamp", d="date", x="binary",
                  m="decimal(4,2)", l="array<int>", u="array<timestamp>", n=nested,
                  v="array<struct<w:decimal(4,2)>>")  # fmt: skip
    for owner, name in DECODES if is_dumb else ():
        monkeypatch.setattr(owner(one), name, dumb(getattr(owner(one), name)))
    assert rejected(one, *values) == [reason] * len(values)


def dumb(read: Callable[..., Any]) -> Callable[..., Any]:
    """The same, but that its errors say nothing."""

    def reads(*given: Any, **options: Any) -> Any:
        try:
            return read(*given, **options)
        except (msgspec.ValidationError, msgspec.DecodeError, pa.ArrowInvalid) as error:
            raise type(error)("?") from None

    return reads


DECODES: list[tuple[Callable[[JsonDecoder], Any], str]] = [
    (lambda one: one._check, "_decode"),
    (lambda one: one._check, "_passing"),
    (lambda one: one._check, "decode"),
    (lambda _: arrow_json, "read_json"),
]


@pytest.mark.parametrize(
    "value",
    [
        b' {"a":1}\r\n',
        b'{\n  "a": 1\n}\n',
        b'{"a":\n1}',
        b'{"a":1,"q":"\\u0000"}',
        b'{"a":1,"s":"\\\\u0000"}',
        b'{"a":1,"q":1,"q":2}',
        b'{"a":1,"q":' + b"[" * 63 + b"]" * 63 + b"}",
        b'{"a":1,"r":[],"q":' + b"[" * 63 + b"]" * 63 + b"}",
        b'{"a":1,"q":[' + b"{}," * 99 + b'"[[[["]}',
        b'{"a":1,"q":"' + b"[" * 99 + b'"}',
        b'{"a":1,"q":"' + b"x" * 9_000 + b'"}',
    ],
)
def test_a_value_that_only_looks_bad_is_kept(value: bytes) -> None:
    decoded = decoder(a="int", s="string").decode([value, b"", value])
    assert decoded.rows.column("a").to_pylist() == [1, 1]
    assert decoded.kept.to_pylist() == [0, 2]


def test_halves_of_a_document_do_not_complete_each_other() -> None:
    one = decoder(z="array<struct<k:int>>")
    assert rejected(one, b'{"z":[{"k":1},', b'{"k":2}]}') == [
        Reason.INVALID_JSON,
        Reason.TRAILING_DATA,
    ]


@pytest.mark.parametrize(
    "literal", ["1e11", "99999999999", '"1e15"', "-1e33", "1e-60", "0e-90", "1." + "0" * 76]
)
def test_a_decimal_that_arrow_would_turn_into_another_is_rejected(literal: str) -> None:
    one = decoder(m="decimal(38,37)")
    assert rejected(one, b'{"m":%s}' % literal.encode()) == [Reason.OUT_OF_RANGE]


def test_bad_records_among_many_leave_the_others_in_order() -> None:
    values: list[bytes | None] = [b'{"a":%d,"t":"2024-02-29T12:00:00Z"}' % i for i in range(3000)]
    bad = [None, b'{"a":1,"a":1}', b'{"t":"noon"}', b'{"q":1e400}', b'{"a":"1"}', b'{"m":1.239}']
    for index in range(0, 3000, 101):
        values[index] = bad[index % len(bad)]
    decoded = decoder(a="int", t="timestamp", m="decimal(4,2)").decode(values)
    good = [i for i in range(3000) if i % 101]
    assert decoded.kept.to_pylist() == good
    assert decoded.rows.column("a").to_pylist() == good
    assert set(decoded.rows.column("t").to_pylist()) == {NOON}
    assert [one.index for one in decoded.rejected] == list(range(0, 3000, 101))


def test_values_beyond_the_size_of_a_block_are_read_in_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = block_sizes(monkeypatch)
    monkeypatch.setattr(json_module, "MAX_BLOCK_BYTES", 30)
    values = [b'{"a":%d}' % i for i in range(40)] + [b'{"a":40,"q":"%s"}' % (b"x" * 50)]
    assert decoder(a="int").decode(values).rows.column("a").to_pylist() == list(range(41))
    assert [size for size in sizes if size > 30] == [len(values[-1]) + 1]


def test_a_record_of_megabytes_is_read_between_small_ones() -> None:
    text = "é" * 4_000_000
    values = [b"{}", json.dumps({"s": text}, ensure_ascii=False).encode(), b'{"s":"x"}']
    decoded = decoder(s="string", max_bytes=16 * 1024 * 1024).decode(values)
    assert decoded.rows.column("s").to_pylist() == [None, text, "x"]


def test_a_value_that_gives_two_rows_is_rejected_even_if_the_check_lets_it_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = decoder(a="int")
    monkeypatch.setattr(one._check, "decode", lambda _: None)
    decoded = one.decode([b'{"a":1}', b'{"a":2}{"a":3}', b'{"a":4}'])
    assert decoded.kept.to_pylist() == [0, 2]
    assert decoded.rows.column("a").to_pylist() == [1, 4]
    assert decoded.rejected[0].detail == "2 rows from 1 values"
    decoded = one.decode([b'{"a":1}{"a":2}{"a":3}', b'{"q":1e400}'])
    assert [r.reason for r in decoded.rejected] == [Reason.INVALID_JSON, Reason.OUT_OF_RANGE]


def test_a_detail_says_where_and_is_short() -> None:
    one = decoder(n="struct<a:array<int>>", t="timestamp", m="decimal(4,2)")
    values = [
        b'{"m":[]}',
        b'{"n":{"a":[1,"x"]}}',
        b'{"t":"%s"}' % (b"x" * 5000),
        b'{"t":"0","t":"0"}',
    ]
    assert [r.detail for r in one.decode(values).rejected] == [
        "Expected `decimal(4,2)`, got `list` - at `$.m`",
        "Expected `int | null`, got `str` - at `$.n.a[1]`",
        f"{'x' * 50!r} is no timestamp[us, tz=UTC] - at `$.t`",
        "a declared field is there twice - at `$.t`",
    ]


def test_a_detail_that_quotes_a_long_value_is_cut() -> None:
    refusal = Refusal(Reason.WRONG_TYPE, "x" * 5000)
    assert len(refusal.detail) == len(refusal.of(0).detail) == 300


@pytest.mark.parametrize("values", [[], [None], [b"x", b""]])
def test_no_good_value_gives_no_row_in_the_declared_columns(values: list[bytes | None]) -> None:
    one = decoder(a="int", n="struct<d:date>")
    decoded = one.decode(values)
    assert decoded.rows.num_rows == 0
    assert decoded.rows.schema == one.schema
    assert decoded.kept.type == pa.int64()
    assert len(decoded.rejected) == len(values)


def test_a_raw_tombstone_is_a_row_whose_value_is_null() -> None:
    decoded = RawDecoder().decode([b"\xff\0", None, b""])
    assert decoded.rows.to_pylist() == [{"value": b"\xff\0"}, {"value": None}, {"value": b""}]
    assert decoded.kept.to_pylist() == [0, 1, 2]
    assert decoded.rejected == []


def test_a_raw_value_beyond_the_limit_is_rejected() -> None:
    decoded = RawDecoder(max_bytes=2).decode([b"12", b"123", None])
    assert decoded.kept.to_pylist() == [0, 2]
    assert [(r.index, r.reason) for r in decoded.rejected] == [(1, Reason.TOO_LARGE)]


@pytest.mark.parametrize("bad", [b'{"a":1,"a":2}', b'{"a":1,"q":1e400}'])
def test_a_few_bad_records_do_not_make_many_readings(
    bad: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = block_sizes(monkeypatch)
    values = [b'{"a":%d}' % i for i in range(5000)]
    values[500::1000] = [bad] * 5
    assert decoder(a="int").decode(values).rows.num_rows == 4995
    # the block, again with kinds checked, each suspect, and what is left in two parts
    assert len(readings) == 1 + 1 + 5 + 2


DEEP = JsonDecoder(
    arrow_schema(
        {
            "v": "struct<s:string,d:date,ts:timestamp,l:array<date>,b:binary>",
            "items": "array<struct<t:timestamp,s:array<string>>>",
        }
    )
)


@pytest.mark.parametrize(
    ("value", "reason", "place"),
    [
        ({"v": {"d": "x"}}, Reason.WRONG_TYPE, "$.v.d"),
        ({"v": {"ts": "infinity"}}, Reason.WRONG_TYPE, "$.v.ts"),
        ({"v": {"l": ["2024-01-01", "x"]}}, Reason.WRONG_TYPE, "$.v.l[...]"),
        ({"items": [{}, {"t": "x"}]}, Reason.WRONG_TYPE, "$.items[...].t"),
        ({"v": {"b": "%"}}, Reason.WRONG_TYPE, "$.v.b"),
        ({"v": {"s": "\0"}}, Reason.NUL_IN_TEXT, "$.v.s"),
        ({"items": [{"s": ["a", "\0"]}]}, Reason.NUL_IN_TEXT, "$.items[...].s[...]"),
        *(
            ({"v": {"ts": f"{year}-03-15T00:00:00Z"}}, Reason.OUT_OF_RANGE, "$.v.ts")
            for year in ("-0044", "0000", "10000", "+10000", "-10000")
        ),
        *(
            ({"v": {"l": [day]}}, Reason.OUT_OF_RANGE, "$.v.l[...]")
            for day in ("-0044-03-15", "0000-03-15", "10000-03-15", "0044-03-15 BC")
        ),
    ],
)
def test_a_reason_names_the_column_at_any_depth(value: Any, reason: Reason, place: str) -> None:
    """B12: dates, times and texts within structs and lists; years that are none alike."""
    rejected = [*DEEP.decode([json.dumps(value).encode()]).rejected]
    assert [one.reason for one in rejected] == [reason]
    assert rejected[0].detail.endswith(f" - at `{place}`")
    if reason is Reason.OUT_OF_RANGE:
        assert rejected[0].detail.startswith("outside of the years 1 to 9999")
