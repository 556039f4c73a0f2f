"""Whether the rows' columns fit an existing table, and the ALTER TABLE to make them fit."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tidemark.errors import quoted
from tidemark.staging._guarded import is_guarded
from tidemark.staging.catalog import TableColumn
from tidemark.staging.column import BATCH_SEQ, Column

_WIDER = {
    "smallint": {"integer", "bigint", "real", "double precision"},
    "integer": {"bigint", "double precision"},
    "real": {"double precision"},
    "text": {"character varying"},
    "jsonb": {"json"},
    "timestamp with time zone": {"timestamp(6) with time zone"},
    "timestamp without time zone": {"timestamp(6) without time zone"},
}
_DIGITS = {"smallint": 5, "integer": 10, "bigint": 19}
_NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")
_NUMBER = re.compile(r"smallint|integer|bigint|real|double precision|numeric(\(.*\))?")
_INSTANT = re.compile(r"timestamp(\(\d\))? with(out)? time zone")
_KINDS = {
    "text": re.compile(r"text|character( varying)?(\(\d+\))?"),
    "number": _NUMBER,
    "time": re.compile(f"date|{_INSTANT.pattern}"),
    "json": re.compile(r"jsonb?"),
    "boolean": re.compile(r"boolean"),
}


@dataclass(frozen=True, slots=True)
class Misfit:
    """One reason why rows don't fit the table, and the ALTER TABLE actions that remove it.

    There are none where no statement keeps the rows.
    """

    column: str
    fact: str
    actions: tuple[str, ...]


def differences(columns: Sequence[Column], table: Sequence[TableColumn]) -> Iterator[Misfit]:
    """Yield every reason why rows of `columns`, with their batch_seq, can't be inserted."""
    wanted = {column.name: column.postgres_type for column in columns} | {BATCH_SEQ: "bigint"}
    empty = {column.name for column in columns if column.is_empty}
    found = {own.name: own for own in table}
    for name, type_name in wanted.items():
        if name not in found:
            yield _missing(name, type_name)
        elif name in empty:
            yield from _against_nulls(found[name])
        else:
            yield from _against_values(found[name], type_name)
    for own in table:
        if own.name not in wanted and not own.fills_itself:
            yield _required(own, "the transform's rows lack it")


def parsed(columns: Sequence[Column], table: Sequence[TableColumn]) -> tuple[Column, ...]:
    """The columns, each text with the type of the table's column where that parses it."""
    found = {own.name: own for own in table}
    return tuple(
        replace(column, parsed_as=found[column.name].type_name)
        if column.name in found and _parses(found[column.name], column.postgres_type)
        else column
        for column in columns
    )


def _parses(own: TableColumn, need: str) -> bool:
    is_parsed = own.parses_text or is_guarded(own.type_name)
    return is_parsed and need == ("text[]" if own.type_name.endswith("[]") else "text")


def holds(have: str, need: str) -> bool:
    """Whether a column of type `have` stores every value of type `need` unchanged."""
    if have.endswith("[]") and need.endswith("[]"):
        return holds(have[:-2], need[:-2])
    return have == need or have in _WIDER.get(need, ()) or _numeric_holds(have, need)


def _numeric_holds(have: str, need: str) -> bool:
    need_digits, have_digits = _digits(need), _digits(have)
    if need_digits is None:
        return False
    if have == "numeric":
        return True
    if have_digits is None or not have.startswith("numeric"):
        return False
    return have_digits[0] >= need_digits[0] and have_digits[1] >= need_digits[1]


def _digits(type_name: str) -> tuple[int, int] | None:
    """Digits before and after the point; None for what isn't an exact, bounded number."""
    if match := _NUMERIC.fullmatch(type_name):
        precision, scale = map(int, match.groups())
        return precision - scale, scale
    whole = _DIGITS.get(type_name)
    return None if whole is None else (whole, 0)


def _missing(name: str, type_name: str) -> Misfit:
    if name == BATCH_SEQ:
        # existing rows belong to no batch: 0 is below every seq, so no rewind removes them
        action = f"ADD COLUMN {quoted(name)} bigint NOT NULL DEFAULT 0"
        return Misfit(name, "the table lacks it; rewinds delete by it", (action,))
    action = f"ADD COLUMN {quoted(name)} {type_name}"
    return Misfit(name, f"the table lacks it, the transform's rows have {type_name}", (action,))


def _against_nulls(own: TableColumn) -> Iterator[Misfit]:
    if own.generated:
        yield _computed(own, own.type_name)
    elif own.identity or own.is_required:
        yield _required(own, "the transform's rows have only nulls for it")


def _against_values(own: TableColumn, type_name: str) -> Iterator[Misfit]:
    if own.generated:
        yield _computed(own, type_name)
    elif not holds(own.type_name, type_name) and not _parses(own, type_name):
        yield _of_another_type(own, type_name)
    elif own.identity == "a":
        action = f"ALTER COLUMN {quoted(own.name)} SET GENERATED BY DEFAULT"
        yield Misfit(own.name, "the table numbers it itself (GENERATED ALWAYS)", (action,))


def _of_another_type(own: TableColumn, type_name: str) -> Misfit:
    fact = f"the table has {own.type_name}, the transform's rows {type_name}"
    if _converts(own.type_name, type_name):
        return Misfit(own.name, fact, tuple(_retype(own, type_name)))
    again = (
        "no value converts: give the table a new column, and `tidemark reset` to make rows again"
    )
    return Misfit(own.name, f"{fact}; {again}", ())


def is_number(type_name: str) -> bool:
    """Whether values of the type are numbers."""
    return bool(_NUMBER.fullmatch(type_name))


def _converts(old: str, new: str) -> bool:
    """Whether some value of the old type, as text, is one of the new type and means the same."""
    if old.endswith("[]") and new.endswith("[]"):
        return _converts(old[:-2], new[:-2])
    kinds = _kind(old), _kind(new)
    if "text" in kinds:
        return True
    if "json" in kinds:
        return {*kinds} <= {"json", "number", "boolean"}
    return kinds[0] == kinds[1]


def _kind(type_name: str) -> str:
    """What its values are, as far as conversion goes; the type itself where it is like no other."""
    found = (kind for kind, names in _KINDS.items() if names.fullmatch(type_name))
    return next(found, type_name)


def _computed(own: TableColumn, type_name: str) -> Misfit:
    name, fact = quoted(own.name), "the table computes it (GENERATED ALWAYS AS)"
    if own.generated == "v":
        # a virtual column holds no data that could be lost
        actions = [f"DROP COLUMN {name}, ADD COLUMN {name} {type_name}"]
    else:
        actions = [f"ALTER COLUMN {name} DROP EXPRESSION"]
        if not holds(own.type_name, type_name):
            other = _of_another_type(own, type_name)
            fact, actions = f"{fact}; {other.fact}", [*actions, *other.actions]
    return Misfit(own.name, fact, tuple(actions))


def _required(own: TableColumn, fact: str) -> Misfit:
    name = quoted(own.name)
    actions = [f"DROP CONSTRAINT {quoted(own.primary_key)}"] if own.primary_key else []
    actions += [f"ALTER COLUMN {name} DROP IDENTITY"] if own.identity else []
    actions += [f"ALTER COLUMN {name} DROP NOT NULL"]
    return Misfit(own.name, f"{fact}, the table has NOT NULL without a default", tuple(actions))


def _retype(own: TableColumn, type_name: str) -> Iterator[str]:
    name = quoted(own.name)
    if own.identity:
        yield f"ALTER COLUMN {name} DROP IDENTITY"
    if own.has_default and not _casts_itself(own.type_name, type_name):
        yield f"ALTER COLUMN {name} DROP DEFAULT"
    yield f"ALTER COLUMN {name} TYPE {type_name}{_using(name, own.type_name, type_name)}"


def _using(name: str, old: str, new: str) -> str:
    if _INSTANT.fullmatch(old) and _INSTANT.fullmatch(new) and not _is_same_instant(old, new):
        return f" USING {name} AT TIME ZONE 'UTC'"
    # a cast through text refuses a value that it would change, instead of rounding it
    return "" if _casts_itself(old, new) else f" USING {name}::text::{new}"


def _casts_itself(old: str, new: str) -> bool:
    """Whether values and a default convert to the new type without a USING clause."""
    numbers = _NUMBER.fullmatch(old) and _NUMBER.fullmatch(new)
    return new == "text" or bool(numbers) or _is_same_instant(old, new)


def _is_same_instant(old: str, new: str) -> bool:
    instants = _INSTANT.fullmatch(old) and _INSTANT.fullmatch(new)
    return bool(instants) and ("without" in old) == ("without" in new)
