"""Check: judges one JSON value by itself, so that its company cannot change the verdict.

A value that passes is one strict JSON object and nothing else, of bounded size and depth, valid
UTF-8, its declared fields of the declared kinds and ranges. Joined with others that passed it
can therefore neither swallow a neighbour nor be swallowed.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from tidemark.decode._amount import amount, check_amount, number
from tidemark.decode._exact import FLOAT32_END
from tidemark.decode._why import of_malformed, of_unfit
from tidemark.decode.port import Reason, Refusal

MAX_DEPTH = 64

_STRING = re.compile(rb'"(?:[^"\\]++|\\.?)*+(?:"|\Z)', re.DOTALL)
"""Never reads a byte twice; a text that is cut off ends with the value."""
_NOT_A_BRACKET = bytes(set(range(256)) - set(b"{}[]"))
_NUL_TEXT = b"\\u0000"

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
        self._schema = schema
        self._refuses_new = refuses_new
        self._passing = _decoder(schema, refuses_new=False)
        self._decode = _decoder(schema, refuses_new=True) if refuses_new else self._passing
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
        return self.hidden(value) or self._told(value, error)

    def _told(self, value: bytes, error: Exception) -> Refusal:
        """With the library's words, for a reason that stands in the value."""
        if self._refuses_new:
            try:
                self._passing(value)
            except CHECK_ERRORS as known:
                error = known
            else:
                return Refusal(Reason.NEW_FIELD, str(error))
        if isinstance(error, msgspec.ValidationError):
            return Refusal(of_unfit(value, self._schema), str(error))
        return Refusal(of_malformed(value, self._passing), str(error))

    def hidden(self, value: bytes) -> Refusal | None:
        """What `decode` does not see: size, encoding, depth, NUL."""
        if len(value) > self._max_bytes:
            return Refusal(Reason.TOO_LARGE, f"{len(value)} bytes, limit {self._max_bytes}")
        if not _is_utf8(value):
            return Refusal(Reason.INVALID_UTF8, "the value is not valid UTF-8")
        if _is_deep(value):
            return Refusal(Reason.TOO_DEEP, f"nested deeper than {MAX_DEPTH}")
        if _NUL_TEXT in value and (at := self._nul_at(value)):
            fact = "a declared text holds U+0000, which Postgres can't store"
            return Refusal(Reason.NUL_IN_TEXT, f"{fact} - at `{at}`")
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

    def _nul_at(self, value: bytes) -> str | None:
        """Where a declared text holds NUL: the text of undeclared fields reaches nobody."""
        try:
            return _nul_at(self.decode(value), "$")
        except CHECK_ERRORS:
            return None


def _decoder(schema: pa.Schema, *, refuses_new: bool) -> Callable[[bytes], Any]:
    kinds = _Kinds(refuses_new).struct(schema)
    return msgspec.json.Decoder(kinds, float_hook=number, dec_hook=check_amount).decode


def _nul_at(found: Any, at: str) -> str | None:
    if isinstance(found, str):
        return at if "\0" in found else None
    within: Iterable[tuple[str, Any]] = ()
    if isinstance(found, list):
        within = ((f"{at}[...]", item) for item in found)
    elif isinstance(found, msgspec.Struct):
        names = zip(found.__struct_encode_fields__, found.__struct_fields__, strict=True)
        within = ((f"{at}.{name}", getattr(found, own)) for name, own in names)
    return next(filter(None, (_nul_at(one, place) for place, one in within)), None)


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
        return Annotated[float, msgspec.Meta(gt=-FLOAT32_END, lt=FLOAT32_END)]
    if pa.types.is_float64(of):
        return float
    return bytes if pa.types.is_binary(of) else str
