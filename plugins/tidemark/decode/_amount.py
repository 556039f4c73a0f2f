"""Amounts: the numbers that a decimal(p,s) holds exactly.

Arrow's reader must see no other: it lets values of too many digits overflow into wrong ones without
an error. So each is checked in exact arithmetic before.
"""

import re
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

import pyarrow as pa

WIRE = pa.decimal256(76, 38)
"""What the reader reads: any decimal(p,s), in whatever digits it is written (12.340 is 12.34)."""

_TEXT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_MAX_TEXT = 200
"""Characters of a number, so that its digits cost nothing to count."""
_EXPONENTS = range(-WIRE.precision, WIRE.scale + 1)
_EXACT = Context(prec=2 * WIRE.precision)


class OutOfRange(ValueError):
    """A number that a decimal(p,s) can't hold."""


class Amount:
    """Base of the types that stand for decimal(p,s) while a value is checked."""

    precision: int
    scale: int


@lru_cache(maxsize=1000)
def amount(of: pa.DataType) -> type[Amount]:
    return type("Amount", (Amount,), {"precision": of.precision, "scale": of.scale})


def number(text: str) -> Decimal:
    """The number of a JSON text that has a point or an exponent.

    Raises:
        OutOfRange: no decimal(p,s) is written so, or Python has no such number.
    """
    try:
        return Decimal(text if len(text) <= _MAX_TEXT else "")
    except InvalidOperation:
        raise OutOfRange("Number out of range of any decimal") from None


def check_amount(kind: type, found: Any) -> Amount:
    """An instance of `kind`, which says that what was found fits it.

    Raises:
        OutOfRange: it is a number, and not one of the type's.
        ValueError: it is no number.
    """
    name = f"decimal({kind.precision},{kind.scale})"  # type: ignore[attr-defined]
    if isinstance(found, str):
        if not _TEXT.fullmatch(found):
            raise ValueError(f"Expected `{name}`, got another text")
        found = number(found)
    if type(found) not in (int, Decimal):
        raise ValueError(f"Expected `{name}`, got `{type(found).__name__}`")
    if not _fits(Decimal(found), kind):
        raise OutOfRange(f"Number out of range of {name}")
    return kind()  # type: ignore[no-any-return]


def _fits(number: Decimal, kind: Any) -> bool:
    _, digits, exponent = number.as_tuple()
    if exponent not in _EXPONENTS or len(digits) > WIRE.precision:
        return False
    if number and number.adjusted() >= kind.precision - kind.scale:
        return False
    return number == number.quantize(Decimal(1).scaleb(-kind.scale), context=_EXACT)
