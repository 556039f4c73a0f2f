"""Texts that a cast alone would change: it is asked first whether the type holds all that they say.

A cast to `time` takes `now`, drops an offset or a day, and rounds; one to `interval` spreads
fractions over smaller units; one to `bit(n)` cuts or fills. What is not written as below is handed
to the cast in a form that it refuses, so that it is refused as any text that says nothing.
"""

import re

from psycopg2 import sql

_TIME = re.compile(r"time(?:\((\d)\))? (with|without) time zone")
_BITS = re.compile(r"bit( varying)?(?:\((\d+)\))?")
_CLOCK = r"^(([01]\d|2[0-3]):[0-5]\d(:[0-5]\d{fraction})?|24:00(:00)?){zone}$"
_UTC = "Z?"
"""Debezium writes it behind times that have no zone."""
_OFFSET = r"(Z|[+-]\d\d(:?\d\d)?)"
_ISO = (
    r"P(?=[-\dT])(-?\d+Y)?(-?\d+M)?(-?\d+W)?(-?\d+D)?"
    r"(T(?=[-\d])(-?\d+H)?(-?\d+M)?(-?\d+(\.\d{1,6})?S)?)?"
)
_UNITS = "(years?|mons?|months?|weeks?|days?|hours?|mins?|minutes?)"
_CLOCKED = r"\d+:[0-5]\d(:[0-5]\d(\.\d{1,6})?)?"
_WORDS = rf"(?=\d)(\d+ {_UNITS}( (?=\d)|$))*(\d+ (secs?|seconds?)|{_CLOCKED})?"
_INTERVAL = f"^({_ISO}|{_WORDS})$"

_SAFE = sql.SQL("CASE WHEN {is_told} THEN {text}::{kind} ELSE ({text} || ' ?!x')::{kind} END")
_SAFE_ITEMS = sql.SQL("""
CASE WHEN NOT EXISTS (SELECT FROM unnest({text}) AS e (item) WHERE NOT ({is_told}))
     THEN {text}::{kind} ELSE ({text} || ' ?!x'::text)::{kind} END
""")
_ITEM = sql.Identifier("e", "item")


def is_guarded(type_name: str) -> bool:
    """Whether values of a type of Postgres, or of an array's items, are made of texts so."""
    return _test(type_name.removesuffix("[]"), _ITEM) is not None


def made_of(text: sql.Composable, type_name: str) -> sql.Composable | None:
    """The value that a text says, or the values of an array; None where the cast alone is right."""
    kind = sql.SQL(type_name)
    if type_name.endswith("[]"):
        test = _test(type_name[:-2], _ITEM)
        return test and _SAFE_ITEMS.format(text=text, kind=kind, is_told=test)
    test = _test(type_name, text)
    return test and _SAFE.format(text=text, kind=kind, is_told=test)


def _test(type_name: str, text: sql.Composable) -> sql.Composable | None:
    """True of a text that the type holds as it is, and of null."""
    if type_name == "interval":
        return _matches(text, _INTERVAL)
    if found := _TIME.fullmatch(type_name):
        digits = int(found[1] or 6)
        fraction = rf"(\.\d{{1,{digits}}})?" if digits else ""
        zone = _OFFSET if found[2] == "with" else _UTC
        return _matches(text, _CLOCK.format(fraction=fraction, zone=zone))
    if found := _BITS.fullmatch(type_name):
        is_all = _matches(text, "^[01]*$")
        if found[1] and not found[2]:
            return is_all
        sized = sql.SQL("({} AND length({}) " + ("<=" if found[1] else "=") + " {})")
        return sized.format(is_all, text, sql.Literal(int(found[2] or 1)))
    return None


def _matches(text: sql.Composable, pattern: str) -> sql.Composable:
    return sql.SQL("coalesce({} ~ {}, true)").format(text, sql.Literal(pattern))
