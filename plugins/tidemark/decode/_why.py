"""Why: the reason why a JSON value is no row, found in the value itself.

What msgspec and Arrow say of it is shown to a person and decides nothing: other versions have other
words. Only a value that they refused is looked at so.
"""

import json
import re
from binascii import Error, a2b_base64
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import lru_cache
from math import isinf
from typing import Any

import pyarrow as pa

from tidemark.decode._amount import OutOfRange, amount, check_amount, number
from tidemark.decode._exact import FLOAT32_END
from tidemark.decode.port import Reason, Refusal

HUGE = r"[eE]\+?[0-9]{3}"
"""An exponent for which Arrow's reader refuses a number, whatever that is."""
_HUGE = re.compile(HUGE)
_BLANKS = " \t\r\n"


class _Object(list[tuple[str, Any]]):
    """The members of an object, each as often as it is there."""


class _Integer(str):
    """A number without point and exponent, as it is written."""


class _Fraction(str):
    """Any other number."""


_JSON = json.JSONDecoder(
    object_pairs_hook=_Object, parse_int=_Integer, parse_float=_Fraction, parse_constant=_Fraction
)


def of_malformed(value: bytes, decode: Callable[[bytes], object]) -> Reason:
    """Of UTF-8 that is no JSON; `decode` raises ValueError for what is none."""
    text = value.decode().lstrip(_BLANKS)
    try:
        end = _JSON.raw_decode(text)[1]
        decode(text[:end].encode())
    except ValueError:
        return Reason.INVALID_JSON
    return Reason.TRAILING_DATA if text[end:].strip(_BLANKS) else Reason.INVALID_JSON


def of_unfit(value: bytes, schema: pa.Schema) -> Reason:
    """Of UTF-8 that is no object of these fields: what is first of all that does not fit."""
    text = value.decode().lstrip(_BLANKS)
    if not text.startswith("{"):
        return Reason.NOT_AN_OBJECT
    try:
        found = _JSON.raw_decode(text)[0]
    except ValueError:  # broken behind what does not fit
        return Reason.WRONG_TYPE
    return next(_misfits(found, _struct(schema)), Reason.WRONG_TYPE)


def of_unread(value: bytes, schema: pa.Schema, refusal: Refusal) -> Refusal:
    """Of an object that passed every check, and that Arrow's reader refuses so, alone."""
    found = _JSON.raw_decode(value.decode().lstrip(_BLANKS))[0]
    if at := _twice(found, _struct(schema), "$"):
        return Refusal(Reason.DUPLICATE_KEY, f"a declared field is there twice - at `{at}`")
    if _is_huge(found):
        return Refusal(Reason.OUT_OF_RANGE, "Number out of range: its exponent has three digits")
    return refusal


def _struct(schema: pa.Schema) -> pa.StructType:
    return pa.struct(list(schema))


@lru_cache(maxsize=1000)
def _types(of: pa.StructType) -> dict[str, pa.DataType]:
    return {member.name: member.type for member in of}


def _misfits(found: Any, of: pa.DataType) -> Iterator[Reason]:
    """Of all that is within, in its order."""
    if isinstance(found, _Object) and pa.types.is_struct(of):
        types = _types(of)
        for name, one in found:
            if name in types:
                yield from _misfits(one, types[name])
    elif type(found) is list and pa.types.is_list(of):
        for one in found:
            yield from _misfits(one, of.value_type)
    elif reason := _misfit(found, of):
        yield reason


def _misfit(found: Any, of: pa.DataType) -> Reason | None:
    if pa.types.is_decimal(of) and isinstance(found, str):
        return _no_amount(found, of)
    if isinstance(found, (_Integer, _Fraction)):
        return _no_number(found, of)
    if found is None or (type(found) is str and _is_text(found, of)):
        return None
    return None if type(found) is bool and pa.types.is_boolean(of) else Reason.WRONG_TYPE


def _no_amount(found: str, of: pa.DataType) -> Reason | None:
    exact: str | Decimal = found
    try:
        if type(found) is not str:
            exact = Decimal(found) if isinstance(found, _Integer) else number(found)
        check_amount(amount(of), exact)
    except OutOfRange:
        return Reason.OUT_OF_RANGE
    except ValueError:
        return Reason.WRONG_TYPE
    return None


def _no_number(found: str, of: pa.DataType) -> Reason | None:
    """A number that no double holds is out of range wherever it stands."""
    if isinf(float(found)):
        return Reason.OUT_OF_RANGE
    if pa.types.is_floating(of):
        is_over = pa.types.is_float32(of) and abs(float(found)) >= FLOAT32_END
        return Reason.OUT_OF_RANGE if is_over else None
    if not (pa.types.is_integer(of) and isinstance(found, _Integer)):
        return Reason.WRONG_TYPE
    end = 2 ** (of.bit_width - 1)
    return None if -end <= int(found) < end else Reason.OUT_OF_RANGE


def _is_text(found: str, of: pa.DataType) -> bool:
    if not pa.types.is_binary(of):
        return bool(pa.types.is_string(of) or pa.types.is_temporal(of))
    try:
        a2b_base64(found, strict_mode=True)
    except (Error, ValueError):
        return False
    return True


def _twice(found: Any, of: pa.DataType, at: str) -> str | None:
    """Where a declared member is there twice, at any depth."""
    within: Iterable[tuple[str, Any, pa.DataType]] = ()
    if isinstance(found, _Object) and pa.types.is_struct(of):
        types, seen = _types(of), set[str]()
        for name in (name for name, _ in found if name in types):
            if name in seen:
                return f"{at}.{name}"
            seen.add(name)
        within = ((f"{at}.{name}", one, types[name]) for name, one in found if name in types)
    elif type(found) is list and pa.types.is_list(of):
        within = ((f"{at}[...]", one, of.value_type) for one in found)
    return next(filter(None, (_twice(one, kind, place) for place, one, kind in within)), None)


def _is_huge(found: Any) -> bool:
    """Whether it has a number with such an exponent, declared or not."""
    if isinstance(found, _Object):
        return any(_is_huge(one) for _, one in found)
    if type(found) is list:
        return any(map(_is_huge, found))
    return isinstance(found, _Fraction) and _HUGE.search(found) is not None
