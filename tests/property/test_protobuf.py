"""Protobuf: what its library writes is read as it was written; any bytes are rows or letters."""

from datetime import UTC, datetime
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fates import assert_one_fate
from tests.support.protobuf import FIRST, entry, enum, field, file, made, message
from tests.support.registry import framed
from tests.unit.test_protobuf import Known

from tidemark.decode import Decoded, _protobuf
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


KINDS = ("int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64",
         "sfixed32", "sfixed64", "float", "double", "bool", "string", "bytes")  # fmt: skip


def plain(syntax: str) -> FileDescriptorProto:
    """Two fields of each kind, of which proto3 makes the second optional; and messages."""
    scalars = [
        field(f"{kind}_{n}", kind, optional=n == 2 and syntax == "proto3")
        for kind in KINDS
        for n in (1, 2)
    ]
    times = [field(name, ".google.protobuf.Timestamp") for name in ("t", "whole", "gone")]
    last = [field("e", "enum .t.E"), field("f", "enum .t.E"), field("w", ".t.W"),
            field("v", ".t.W"), field("far", "int32", number=5000)]  # fmt: skip
    either = [field("p", "int32", oneof_index=0), field("q", "string", oneof_index=0)]
    deep = message("V", field("u", "bool"), *either)
    deep.oneof_decl.add(name="which")
    within = message("W", field("x", "sint32"), field("y", "string"), field("z", ".t.V"))
    return file(message("M", *scalars, *times, *last), within, deep, syntax=syntax,
                enum_type=[enum("E", "x", "y")],
                dependency=["google/protobuf/timestamp.proto"])  # fmt: skip


NUMBERED = "smallint", "int", "bigint"
PLAIN_FIELDS = (
    {f"{kind}_{n}": NUMBERED[(at + n) % 3] for at, kind in enumerate(KINDS[:10]) for n in (1, 2)}
    | {"float_1": "float", "float_2": "double", "double_1": "double", "double_2": "float"}
    | {"bool_1": "boolean", "string_1": "string", "string_2": "binary", "bytes_1": "binary"}
    | {"bytes_2": "string", "t": "timestamp", "whole": "struct<seconds:bigint,nanos:int,no:int>"}
    | {"e": "string", "w": "struct<y:string,z:struct<u:boolean,p:int,q:string>>"}
    | {"far": "int", "never": "date"}
)
PLAIN_COLUMNS = arrow_schema(PLAIN_FIELDS)
PLAIN_FILES = [plain("proto2"), plain("proto3")]
PLAIN_WRITERS = [made(one) for one in PLAIN_FILES]
PLAIN_KNOWN: Any = Known(*PLAIN_FILES)
PLAIN_KINDS = Registered(PLAIN_KNOWN, partial(Messages, schema=PLAIN_COLUMNS))
PLAIN_DECODER = ProtobufDecoder(PLAIN_COLUMNS, PLAIN_KINDS, max_bytes=2000)

REALS = st.floats() | st.sampled_from([0.0, -0.0, 3.4028235e38, 3.5e38, -3.4028236e38])
STRINGS = st.text(max_size=4) | st.sampled_from(["", "é" * 40, "\0", "é", "a\0b", "\u00c3"])


def _of(kind: str) -> st.SearchStrategy[Any]:
    if "int" in kind or "fixed" in kind:
        bits, signed = 32 if "32" in kind else 64, "u" not in kind and not kind.startswith("fixed")
        first, end = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else (0, 2**bits)
        near = st.integers(max(first, -40_000), 40_000)
        return near | st.integers(first, end - 1) | st.sampled_from([0, first, end - 1])
    others = {"float": st.floats(width=32), "double": REALS, "bool": st.booleans(),
              "string": STRINGS, "bytes": st.binary(max_size=4)}  # fmt: skip
    return others[kind]


SECONDS = st.integers(-62_135_596_801, 253_402_300_800) | st.sampled_from(
    [-62_135_596_801, -62_135_596_800, 253_402_300_799, 253_402_300_800, 2**63 - 1, -(2**63)]
)
NANOS = st.sampled_from([0, 1000, 999_999_000, 1_000_000_000, 1, -1000, -(2**31)])
TIMES = st.fixed_dictionaries({}, optional={"seconds": SECONDS, "nanos": NANOS})
DEEP = st.fixed_dictionaries({}, optional={"u": st.booleans(), "q": STRINGS, "p": _of("int32")})
WITHIN = st.fixed_dictionaries({}, optional={"x": _of("sint32"), "y": STRINGS, "z": DEEP})
PLAIN_DATA = st.fixed_dictionaries(
    {},
    optional={f"{kind}_{n}": _of(kind) for kind in KINDS for n in (1, 2)}
    | dict.fromkeys(("t", "whole", "gone"), TIMES)
    | {"e": st.integers(0, 1), "f": st.integers(0, 1), "w": WITHIN, "v": WITHIN}
    | {"far": _of("int32")},
)
JUNK = st.binary(max_size=3) | st.sampled_from(
    [b"\xff" * 9, b"\xff" * 9 + b"\1", b"\xff" * 10, b"\x80" * 9 + b"\1", b"\x80\0", b"\x0b\x0c"]
)


def _written(syntax: int, *data: dict[str, Any]) -> bytes:
    return b"".join(PLAIN_WRITERS[syntax](**one).SerializeToString() for one in data)


@st.composite
def plain_values(draw: st.DrawFn) -> bytes:
    """What a writer wrote, at times damaged, or two of them as one."""
    syntax = draw(st.integers(0, 1))
    data = _written(syntax, draw(PLAIN_DATA), *draw(st.lists(PLAIN_DATA, max_size=1)))
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        at, gone = draw(st.integers(0, len(data))), draw(st.integers(0, 3))
        data = data[:at] + draw(JUNK) + data[at + gone :]
    return framed(syntax + 1, data, FIRST)


def _told(decoded: Decoded) -> object:
    rejected = [(one.index, one.reason, one.detail) for one in decoded.rejected]
    return decoded.kept.to_pylist(), repr(decoded.rows.to_pydict()), rejected


@given(st.lists(plain_values() | st.none() | st.binary(max_size=30), max_size=8))
def test_the_fast_way_makes_what_the_slow_one_makes(values: list[bytes | None]) -> None:
    """B12: of sound messages and of damaged ones."""
    with patch.object(_protobuf, "FEW", 1):
        fast = PLAIN_DECODER.decode(values)
    assert _told(fast) == _told(PLAIN_DECODER.decode(values))


@pytest.mark.parametrize("syntax", [0, 1])
def test_what_a_writer_wrote_is_read_fast(syntax: int) -> None:
    """B12: and what has its fields in another order, or anything else in it, is not."""
    times = {"t": {"seconds": 7}, "whole": {}, "gone": {"nanos": 1}}
    within = {"x": -1, "y": "é", "z": {"u": True, "q": "a"}}
    numbers = {f"{kind}_1": 1 for kind in KINDS[:13]}
    datum = {"string_1": "a", "bytes_2": b"b", **numbers, **times, "w": within, "v": within}
    good = _written(syntax, datum)
    both = b"\xa2\x02\6\x1a\4\x10\1\x1a\0"  # of a oneof, in w
    beyond = b"\xfa\1\5\x08\7\x90\2\1"  # in t what would be e
    wholes = [good, b"", _written(syntax, {"far": -1})]
    others = [good + b"\x08\1", b"\x10\1\x08\1", b"\x08\x81\0", b"\xfa\xff\1\0", both, beyond]
    columns = PLAIN_KINDS.of(framed(syntax + 1, b"", FIRST))[0]._columns
    assert columns
    assert columns.rows([*wholes, *others])[1].tolist() == [True] * 3 + [False] * 6
