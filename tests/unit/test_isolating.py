"""B12: what a decoder raises over costs the one value that is at fault."""

from collections.abc import Sequence

import pyarrow as pa
import pytest
from tests.support.protobuf import as_set, entry, field, file, message

from tidemark.decode import Decoded, Decoding, RawDecoder, Reason
from tidemark.decode.port import IsolatingDecoder
from tidemark.errors import Unreachable
from tidemark.settings.fields import arrow_schema
from tidemark.spark.record_decoder import decoder_of

POISON = b"poison"


class Brittle:
    """Raises this over a block that holds POISON."""

    def __init__(self, error: BaseException) -> None:
        self._inner = RawDecoder()
        self.schema = self._inner.schema
        self._error = error

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        if POISON in values:
            raise self._error
        return self._inner.decode(values)


def test_only_the_values_that_it_raises_over_are_refused() -> None:
    """B12: in their places among the others."""
    made = IsolatingDecoder(Brittle(ArithmeticError("too far")))
    values: list[bytes | None] = [b"a", POISON, None, b"b", b"c", POISON]
    decoded = made.decode(values)
    assert decoded.kept.to_pylist() == [0, 2, 3, 4]
    assert decoded.rows.column(0).to_pylist() == [b"a", None, b"b", b"c"]
    told = [(one.index, one.reason) for one in decoded.rejected]
    assert told == [(1, Reason.UNREADABLE), (5, Reason.UNREADABLE)]
    assert "ArithmeticError: too far" in decoded.rejected[0].detail
    assert made.decode([]).rows.num_rows == 0


@pytest.mark.parametrize(
    "error", [Unreachable(), MemoryError(), pa.ArrowMemoryError(), OSError(), ImportError()]
)
def test_what_tells_nothing_of_a_value_is_no_refusal(error: Exception) -> None:
    with pytest.raises(type(error)):
        IsolatingDecoder(Brittle(error)).decode([b"a", POISON])


def test_tidemarks_own_decoders_are_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    made = decoder_of(Decoding("json", arrow_schema({"a": "int"})))
    assert isinstance(made, IsolatingDecoder)

    def fails(_: object, values: Sequence[bytes]) -> set[int]:
        raise ZeroDivisionError

    monkeypatch.setattr("tidemark.decode._check.Check.suspects", fails)
    [rejected] = made.decode([b'{"a":1,"q":"poison"}']).rejected
    assert rejected.reason is Reason.UNREADABLE


def test_keys_of_a_map_that_are_no_text_are_refused_beside_others() -> None:
    """They have no order with texts, and can't be looked up."""
    entries = entry("MEntry", "string", "int32")
    schema = file(
        message("M", field("m", ".t.M.MEntry", many=True), nested=(entries,)), syntax="proto2"
    )
    odd = b"\x0a\x05\x0a\x01\xff\x10\x01"
    good = b"\x0a\x05\x0a\x01a\x10\x01"
    for key in ("string", "binary"):
        columns = arrow_schema({"m": f"array<struct<key:{key},value:int>>"})
        made = decoder_of(Decoding("protobuf", columns, descriptors=as_set(schema), message="t.M"))
        decoded = made.decode([odd + good, good, odd])
        assert [(one.index, one.reason) for one in decoded.rejected] == [
            (0, Reason.INVALID_UTF8), (2, Reason.INVALID_UTF8)
        ]  # fmt: skip
        assert decoded.kept.to_pylist() == [1]
