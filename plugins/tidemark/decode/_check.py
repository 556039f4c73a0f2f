"""Check: judges one JSON value by itself, so that its company cannot change the verdict.

A value that passes is one strict JSON object and nothing else, of bounded size and depth, valid
UTF-8, its declared fields of the declared kinds and ranges. Joined with others that passed it
can therefore neither swallow a neighbour nor be swallowed.

Arrow's reader must see no number that is not exactly a decimal(p,s): it lets values of too many
digits overflow into wrong ones without an error. So each is checked in exact arithmetic before.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from itertools import accumulate
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from tidemark.decode.port import Reason, Refusal

WIRE = pa.decimal256(76, 38)
"""What the reader reads: any decimal(p,s), in whatever digits it is written (12.340 is 12.34)."""

_TEXT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_MAX_TEXT = 200
"""Characters of a number, so that its digits cost nothing to count."""
_EXPONENTS = range(-WIRE.precision, WIRE.scale + 1)
_EXACT = Context(prec=2 * WIRE.precision)


class Amount:
    """Base of the types that stand for decimal(p,s) while a value is checked."""

    precision: int
    scale: int


def amount(of: pa.DataType) -> type[Amount]:
    """The type that stands for this decimal type."""
    return type("Amount", (Amount,), {"precision": of.precision, "scale": of.scale})


def number(text: str) -> Decimal:
    """The number of a JSON text that has a point or an exponent.

    Raises:
        ValueError: no decimal(p,s) is written so, or Python has no such number.
    """
    try:
        return Decimal(text if len(text) <= _MAX_TEXT else "")
    except InvalidOperation:
        raise ValueError("Number out of range of any decimal") from None


def check_amount(kind: type, found: Any) -> Amount:
    """An instance of `kind`, which says that what was found fits it.

    Raises:
        ValueError: it is no number, or not one of the type's.
    """
    name = f"decimal({kind.precision},{kind.scale})"  # type: ignore[attr-defined]
    if isinstance(found, str):
        if not _TEXT.fullmatch(found):
            raise ValueError(f"Expected `{name}`, got another text")
        found = number(found)
    if type(found) not in (int, Decimal):
        raise ValueError(f"Expected `{name}`, got `{type(found).__name__}`")
    if not _fits(Decimal(found), kind):
        raise ValueError(f"Number out of range of {name}")
    return kind()  # type: ignore[no-any-return]


def _fits(number: Decimal, kind: Any) -> bool:
    _, digits, exponent = number.as_tuple()
    if exponent not in _EXPONENTS or len(digits) > WIRE.precision:
        return False
    if number and number.adjusted() >= kind.precision - kind.scale:
        return False
    return number == number.quantize(Decimal(1).scaleb(-kind.scale), context=_EXACT)


MAX_DEPTH = 64

_STRING = re.compile(rb'"(?:[^"\\]++|\\.?)*+(?:"|\Z)', re.DOTALL)
"""Never reads a byte twice; a text that is cut off ends with the value."""
_NOT_A_BRACKET = bytes(set(range(256)) - set(b"{}[]"))
_NUL_TEXT = b"\\u0000"
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_LIMIT = re.compile(r"Expected `\w+` [<>]|(Number|Integer value) out of range")
_FLOAT32_END = 2.0**128 - 2.0**103  # the first number that rounds to infinity

MOST_MEMBERS = 10_000_000
"""Members of all objects in a value's arrays: each takes some ten bytes, though none is written."""

CHECK_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError, Refusal)


_IS_OBJECT = msgspec.json.Decoder(msgspec.defstruct("Object", [], gc=False)).decode


def _is_left_to_reader(of: pa.DataType) -> bool:
    """Whether Arrow's reader refuses the values that are not of this type, as a check does.

    Not where arrays have objects: their members are bounded before they are read.
    """
    if pa.types.is_struct(of):
        return all(_is_left_to_reader(member.type) for member in of)
    if pa.types.is_list(of):
        return not pa.types.is_struct(of.value_type) and _is_left_to_reader(of.value_type)
    return not (pa.types.is_decimal(of) or pa.types.is_binary(of))


class Check:
    """The checks of one schema."""

    def __init__(self, schema: pa.Schema, max_bytes: int, *, refuses_new: bool = False) -> None:
        self._max_bytes = max_bytes
        self._widest = max((_members(field.type) for field in schema), default=0)
        self._decode = msgspec.json.Decoder(
            _Kinds(refuses_new).struct(schema), float_hook=number, dec_hook=check_amount
        ).decode
        self.decode = self._bounded if self._widest else self._decode
        """Raises one of CHECK_ERRORS for a value that `refusal` then explains."""
        is_left = not refuses_new and all(map(_is_left_to_reader, schema.types))
        self.is_object = _IS_OBJECT if is_left else None
        """Raises one of CHECK_ERRORS for a value that is not one object by itself.

        None where Arrow's reader takes what `decode` refuses. Else it takes of that only numbers
        that are infinite in their column, and what `hidden` finds.
        """

    def _bounded(self, value: bytes | None) -> Any:
        """Where arrays have objects: those of an array of empty ones take hundreds of its bytes."""
        if value and self.members(value) > MOST_MEMBERS:
            raise Refusal(Reason.TOO_LARGE, f"objects in arrays have over {MOST_MEMBERS} members")
        return self._decode(value)  # type: ignore[arg-type]

    def members(self, value: bytes) -> int:
        """At most so many have the objects in arrays of the value, declared as they are."""
        return value.count(b"{") * self._widest

    def refusal(self, value: bytes | None, error: Exception) -> Refusal:
        """Why `decode` raised `error` for this value."""
        if value is None:
            return Refusal(Reason.NULL_VALUE, "the record has no value")
        if isinstance(error, Refusal):
            return error
        if not value.strip(b" \t\r\n"):
            return Refusal(Reason.EMPTY_VALUE, "the value is empty or blank")
        return self.hidden(value) or Refusal(_reason(error), str(error))

    def hidden(self, value: bytes) -> Refusal | None:
        """What `decode` does not see: size, encoding, depth, NUL."""
        if len(value) > self._max_bytes:
            return Refusal(Reason.TOO_LARGE, f"{len(value)} bytes, limit {self._max_bytes}")
        if not _is_utf8(value):
            return Refusal(Reason.INVALID_UTF8, "the value is not valid UTF-8")
        if _is_deep(value):
            return Refusal(Reason.TOO_DEEP, f"nested deeper than {MAX_DEPTH}")
        if _NUL_TEXT in value and self._has_nul(value):
            return Refusal(
                Reason.NUL_IN_TEXT, "a declared text holds U+0000, which Postgres can't store"
            )
        return None

    def blocks(self, documents: Sequence[bytes]) -> list[list[int]]:
        """Which of them are read together, for their objects' members take room then too."""
        if not self._widest:
            return [list(range(len(documents)))] if documents else []
        found: list[list[int]] = []
        left = 0
        for row, document in enumerate(documents):
            left -= (members := self.members(document))
            if left < 0 or not found:
                found.append([])
                left = MOST_MEMBERS - members
            found[-1].append(row)
        return found

    def suspects(self, values: Sequence[bytes], joined: bytes) -> set[int]:
        """Indices of the values for which `hidden` must be asked; all others hide nothing.

        `joined` are the values with a byte behind each.
        """
        found: set[int] = set()
        if len(joined) > self._max_bytes:
            found |= {i for i, value in enumerate(values) if len(value) > self._max_bytes}
        if not _is_utf8(joined):
            found |= {i for i, value in enumerate(values) if not _is_utf8(value)}
        if _brackets(joined) >= len(values) + MAX_DEPTH:
            found |= {i for i, value in enumerate(values) if _brackets(value) > MAX_DEPTH}
        if b"\\" in joined:
            found |= _rows_with(_NUL_TEXT, joined, values)
        return found

    def _has_nul(self, value: bytes) -> bool:
        """Whether a declared text holds NUL: the text of undeclared fields reaches nobody."""
        try:
            declared = msgspec.json.encode(self.decode(value), enc_hook=repr)
        except CHECK_ERRORS:
            return False
        return _NUL.search(declared) is not None


def _members(of: pa.DataType, in_list: bool = False) -> int:
    """How many the largest object in an array has, with those within it."""
    if pa.types.is_list(of):
        return _members(of.value_type, True)
    if not pa.types.is_struct(of):
        return 0
    inner = [_members(member.type, in_list) for member in of]
    return of.num_fields + sum(inner) if in_list else max(inner, default=0)


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _rows_with(text: bytes, joined: bytes, values: Sequence[bytes]) -> set[int]:
    """Which values hold the text; `joined` is the values with a byte behind each."""
    found, at = set[int](), joined.find(text)
    ends = list(accumulate(len(value) + 1 for value in values)) if at >= 0 else []
    while at >= 0:
        found.add(row := bisect_right(ends, at))
        at = joined.find(text, ends[row])
    return found


def _brackets(data: bytes) -> int:
    """An upper bound of the depth."""
    return data.count(b"{") + (data.count(b"[") if b"[" in data else 0)


def _is_deep(value: bytes) -> bool:
    if _brackets(value) <= MAX_DEPTH:
        return False
    brackets = _STRING.sub(b"", value).translate(None, _NOT_A_BRACKET)
    steps = (1 if bracket in b"{[" else -1 for bracket in brackets)
    return any(depth > MAX_DEPTH for depth in accumulate(steps))


def _reason(error: Exception) -> Reason:
    text = str(error)
    if isinstance(error, msgspec.ValidationError):
        if text.startswith("Expected `object`"):
            return Reason.NOT_AN_OBJECT
        if text.startswith("Object contains unknown field"):
            return Reason.NEW_FIELD
        return Reason.OUT_OF_RANGE if _LIMIT.match(text) else Reason.WRONG_TYPE
    return Reason.TRAILING_DATA if "trailing characters" in text else Reason.INVALID_JSON


@dataclass(frozen=True, slots=True)
class _Kinds:
    """What fields may hold: the kinds that Arrow's reader wants, within the types' ranges."""

    refuses_new: bool

    def struct(self, fields: Sequence[pa.Field]) -> type[msgspec.Struct]:
        members = {f"f{number}": field for number, field in enumerate(fields)}
        return msgspec.defstruct(
            "Document",
            [(member, self.kind(field.type), None) for member, field in members.items()],
            rename={member: field.name for member, field in members.items()},
            forbid_unknown_fields=self.refuses_new,
            gc=False,
        )

    def kind(self, of: pa.DataType) -> Any:
        if pa.types.is_struct(of):
            return self.struct(list(of)) | None
        if pa.types.is_list(of):
            return list[self.kind(of.value_type)] | None  # type: ignore[misc]
        return _scalar(of) | None


def _scalar(of: pa.DataType) -> Any:
    if pa.types.is_boolean(of):
        return bool
    if pa.types.is_integer(of):
        end = 2 ** (of.bit_width - 1)
        return Annotated[int, msgspec.Meta(ge=-end, le=end - 1)]
    if pa.types.is_decimal(of):
        return amount(of)
    if pa.types.is_float32(of):
        return Annotated[float, msgspec.Meta(gt=-_FLOAT32_END, lt=_FLOAT32_END)]
    if pa.types.is_float64(of):
        return float
    return bytes if pa.types.is_binary(of) else str
