"""B12: what hostile values cost: work and memory grow as their bytes do, and no faster."""

import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from subprocess import run
from typing import Any

import pytest
from tests.support.block_sizes import block_sizes
from tests.support.protobuf import as_set, field, file, message
from tests.support.registry import framed
from tests.unit.test_avro import Known, record

from tidemark.decode import Decoded, Decoding, JsonDecoder, Reason
from tidemark.decode._avro import AvroDecoder
from tidemark.decode.port import Decoder
from tidemark.settings.fields import arrow_schema
from tidemark.spark.record_decoder import decoder_of

ROOT = Path(__file__).resolve().parents[2]
TIMES_LARGER = 16
MOST_TIMES_LONGER = 80
"""Work by the square takes 256 times as long."""


def json_of(**fields: str) -> JsonDecoder:
    return JsonDecoder(arrow_schema(fields))


def cut_off(size: int) -> bytes:
    """A log event that has JSON in a text, of which the end is missing."""
    basket = json.dumps([{"sku": number} for number in range(size // 10)])
    return json.dumps({"a": 1, "body": basket}).encode()[:size]


def seconds(decode: Callable[[bytes], Decoded], value: bytes) -> float:
    """Of processor time."""
    begin = time.process_time()
    decode(value)
    return time.process_time() - begin


def is_ever(decode: Callable[[bytes], Decoded], value: bytes, within: float) -> bool:
    """Whether it takes no longer; a busy machine only adds to it, so it is asked up to 50 times."""
    return any(seconds(decode, value) < within for _ in range(50))


JSON_VALUES: list[tuple[str, Callable[[int], bytes]]] = [
    ("a text that is cut off", cut_off),
    ("escapes after brackets", lambda size: b'{"q":"' + b"[" * 65 + b'\\"' * (size // 2)),
    ("brackets", lambda size: b"[" * size),
    ("a lone backslash", lambda size: b'{"q":"' + b"[" * size + b"\\"),
    ("digits", lambda size: b'{"m":' + b"1" * size + b"}"),
    ("digits behind a point", lambda size: b'{"m":1.' + b"1" * size + b"}"),
    ("digits in a text", lambda size: b'{"m":"1.' + b"1" * size + b'"}'),
    ("U+0000", lambda size: b'{"q":"' + b"\\u0000" * (size // 6) + b'"}'),
]


@pytest.mark.parametrize(
    "make", [one[1] for one in JSON_VALUES], ids=[one[0] for one in JSON_VALUES]
)
def test_a_value_of_json_takes_time_as_it_has_bytes(make: Callable[[int], bytes]) -> None:
    made = json_of(a="int", m="decimal(10,2)")

    def decode(value: bytes) -> Decoded:
        return made.decode([value])

    small, large = make(16_000), make(16_000 * TIMES_LARGER)
    takes = max(min(seconds(decode, small) for _ in range(3)), 50e-6)
    assert is_ever(decode, large, MOST_TIMES_LONGER * takes)


@pytest.mark.parametrize(
    "values",
    [
        [b'{"a":1,"a":2}'] * 1000,
        [b'{"a":1,"q":1e400}'] * 1000,
        [b'{"t":"noon"}'] * 1000,
        [b'{"u":["noon"]}'] * 1000,
        [b'{"a":1,"a":2}', b'{"a":1}'] * 500,
        [b'{"a":1}'] * 999 + [b'{"a":1,"a":2}'],
    ],
    ids=["a key twice", "huge", "no time", "no time within", "every other", "the last"],
)
def test_a_block_of_refused_values_is_read_a_few_times_over(
    values: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part that is refused is read again, in halves at least."""
    made = json_of(a="int", t="timestamp", u="array<timestamp>")
    sizes = block_sizes(monkeypatch)
    made.decode(values)
    assert sum(sizes) <= 22 * sum(len(one) + 1 for one in values)  # twice the number of halvings


WIDE = ",".join(f"f{number}:string" for number in range(100))
MIB = 1 << 20


def avro(kind: Any, declared: str) -> Decoder:
    schema = record(("a", kind))
    return AvroDecoder(arrow_schema({"a": declared}), Known(schema))  # type: ignore[arg-type]


def array_of(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def protobuf(declared: str, *, syntax: str = "proto3") -> Decoder:
    inner = message("In", *(field(f"f{number}", "string") for number in range(100)))
    whole = message("M", field("n", "int32"), field("a", ".t.In", many=True))
    schema = as_set(file(whole, inner, syntax=syntax))
    return decoder_of(
        Decoding("protobuf", arrow_schema({"n": "int", **({"a": declared} if declared else {})}),
                 descriptors=schema, message="t.M")
    )  # fmt: skip


NULLS = record(*((f"f{number}", "null") for number in range(100)), ("b", "boolean"), name="Nulls")
DIGITS = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}


def avro_of(item: bytes) -> Callable[[int], bytes]:
    """An array of as many items as fit."""

    def make(size: int) -> bytes:
        count = size // len(item)
        return framed(1, _long(count) + item * count + b"\0")

    return make


def _long(number: int) -> bytes:
    number, found = number << 1, b""
    while number >= 0x80:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


INTS = WIDE.replace("string", "int")
OF_A_BYTE = avro(array_of(record(("b", "boolean"), name="B")), "array<struct<b:boolean>>")
OF_NULLS = avro(array_of(NULLS), f"array<struct<{INTS},b:boolean>>")
OF_ARRAYS = avro(array_of(array_of("int")), "array<array<int>>")
OF_DECIMALS = avro(array_of(DIGITS), "array<decimal(10,2)>")
OF_MESSAGES, OF_OTHERS = protobuf(f"array<struct<{WIDE}>>"), protobuf("")
OF_OBJECTS = json_of(a=f"array<struct<{WIDE}>>")

HUNGRY: list[tuple[str, Decoder, Callable[[int], bytes], int]] = [
    ("Avro: records of a byte", OF_A_BYTE, avro_of(b"\1"), MIB),
    ("Avro: records of nulls", OF_NULLS, avro_of(b"\1"), 20_000),
    ("Avro: arrays", OF_ARRAYS, avro_of(b"\0"), MIB),
    ("Avro: decimals", OF_DECIMALS, avro_of(b"\2\5"), 4 * MIB),
    ("Protobuf: messages", OF_MESSAGES, lambda size: b"\x12\0" * (size // 2), 100_000),
    ("Protobuf: not declared", OF_OTHERS, lambda size: b"\x12\0" * (size // 2), 100_000),
    ("Protobuf: full ones", OF_OTHERS, lambda size: b"\x12\3\x12\1a" * (size // 5), 300_000),
    (
        "JSON: objects",
        OF_OBJECTS,
        lambda size: b'{"a":[{}' + b",{}" * (size // 3) + b"]}",
        MIB // 3,
    ),
]


@pytest.mark.parametrize(
    ("decoder", "make", "size"), [one[1:] for one in HUNGRY], ids=[one[0] for one in HUNGRY]
)
def test_a_value_whose_parts_would_take_all_memory_is_too_large(
    decoder: Decoder, make: Callable[[int], bytes], size: int
) -> None:
    """B12: a byte or two of it make hundreds, so they are counted before they are made."""
    few = make(size // 50)
    decoded = decoder.decode([few, make(2 * size), few])
    assert [(one.index, one.reason) for one in decoded.rejected] == [(1, Reason.TOO_LARGE)]
    assert decoded.kept.to_pylist() == [0, 2]


@pytest.mark.parametrize(
    "make",
    [
        lambda size: b"\x12" + b"\xff" * 20 + b"\0" * size,
        lambda size: b"\x13" * size,
        lambda size: b"\x14" * size + b"\0" * size,
        lambda size: b"\x0b" * size + b"\0" * size,
        lambda size: b"\0" * size,
        lambda size: (b"\x12" + _long(size)[:1] + b"\x0f") * size,
    ],
)
def test_what_is_no_message_is_told_by_the_library(make: Callable[[int], bytes]) -> None:
    [rejected] = OF_OTHERS.decode([make(100_000)]).rejected
    assert rejected.reason in (Reason.INVALID_PROTOBUF, Reason.TOO_LARGE)


def test_groups_count_as_messages_do() -> None:
    inner = message("G", *(field(f"f{number}", "string") for number in range(100)))
    whole = message("M", field("g", ".t.M.G", many=True), nested=(inner,))
    whole.field[0].type = field("g", "group").type
    schema = as_set(file(whole, syntax="proto2"))
    made = decoder_of(
        Decoding(
            "protobuf",
            arrow_schema({"n": "int"}),
            descriptors=schema,
            message="t.M",
            takes_no_field=True,
        )
    )
    few, many = b"\x0b\x0c" * 1000, b"\x0b\x0c" * 200_000
    decoded = made.decode([few, many])
    assert [(one.index, one.reason) for one in decoded.rejected] == [(1, Reason.TOO_LARGE)]


@pytest.mark.parametrize(
    ("decoder", "value"),
    [
        (OF_A_BYTE, avro_of(b"\1")(500)),
        (OF_MESSAGES, b"\x12\0" * 250),
        (OF_OBJECTS, b'{"a":[{}' + b",{}" * 100 + b"]}"),
    ],
)
def test_a_block_is_read_in_pieces_to_the_same_rows(
    decoder: Decoder, value: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So not all of its values are parts in memory at a time."""
    values = [value, b"", value, value, b"\0", value] * 3
    whole = decoder.decode(values)
    monkeypatch.setattr("tidemark.decode._avro.ROWS_BYTES", 600)
    monkeypatch.setattr("tidemark.decode._protobuf.PIECE_BYTES", 600)
    monkeypatch.setattr("tidemark.decode._check.MOST_MEMBERS", 25_000)
    pieces = decoder.decode(values)
    assert pieces.rows.equals(whole.rows)
    assert (pieces.kept, pieces.rejected) == (whole.kept, whole.rejected)


def test_values_whose_objects_have_many_members_together_are_read_in_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """B12: each of them is small, and its members take ten bytes each, though none is written."""
    sizes = block_sizes(monkeypatch)
    monkeypatch.setattr("tidemark.decode._check.MOST_MEMBERS", 25_000)
    value = b'{"a":[{}' + b",{}" * 9 + b"]}"
    assert OF_OBJECTS.decode([value] * 100).rows.num_rows == 100
    assert max(sizes) < 50 * len(value)


def test_a_block_takes_in_memory_what_a_piece_of_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    value = avro_of(b"\1")(2000)
    monkeypatch.setattr("tidemark.decode._avro.ROWS_BYTES", 2000)

    def peak(count: int) -> int:
        tracemalloc.start()
        try:
            OF_A_BYTE.decode([value] * count)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(15) < 2 * peak(3)


@pytest.mark.skipif(sys.platform != "linux", reason="bounds a process's memory")
def test_too_little_memory_is_no_verdict() -> None:
    """Another worker may have more, and make a row of it. Protobuf tells it by words alone."""
    told = run(
        [sys.executable, "-c", LITTLE_MEMORY], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert told.stdout == "MemoryError", told.stderr


LITTLE_MEMORY = """
import resource
from pathlib import Path
from tests.support.protobuf import as_set, field, file, message
from tidemark.decode._protobuf import Messages
from tidemark.decode._protobuf_schema import message_of_set
from tidemark.settings.fields import arrow_schema

schema = as_set(file(message("M", field("n", "string", many=True))))
made = Messages(message_of_set(schema, "t.M"), arrow_schema({"n": "array<string>"}))
body = b"\\x0a\\x01a" * 1_000_000
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + (1 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    made.parsed(body)
except MemoryError:
    print("MemoryError", end="")
"""
