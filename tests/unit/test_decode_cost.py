"""B12: what hostile values cost: work and memory grow as their bytes do, and no faster."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tidemark.decode import Decoded, JsonDecoder
from tidemark.decode import json as json_module
from tidemark.settings.fields import arrow_schema

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
    """Of processor time, the least of three."""
    found = []
    for _ in range(3):
        begin = time.process_time()
        decode(value)
        found.append(time.process_time() - begin)
    return min(found)


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
    assert seconds(decode, large) < MOST_TIMES_LONGER * max(seconds(decode, small), 50e-6)


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
    read: list[int] = []
    table = json_module.JsonDecoder._table

    def counted(self: Any, documents: list[bytes]) -> Any:
        read.append(len(documents))
        return table(self, documents)

    monkeypatch.setattr(json_module.JsonDecoder, "_table", counted)
    made.decode(values)
    assert sum(read) <= 22 * len(values)  # twice the number of halvings
