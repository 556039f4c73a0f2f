"""An upsert: of each key the target holds the last row, or none."""

import re
from dataclasses import dataclass

_WHOLE = ("smallint", "integer", "bigint")
_SCALED = re.compile(r"numeric\(\d+,(-?\d+)\)")
_LENGTH = re.compile(r"\(\d+\)")


@dataclass(frozen=True, slots=True)
class Upsert:
    """How rows are told apart, and which of a key's rows is the last one."""

    key: tuple[str, ...]
    """Columns that tell rows apart."""
    order_by: str | None = None
    """The largest value is the last one; without it a record's offset within its partition."""
    deleted: str | None = None
    """A boolean column: true deletes the key. It is no column of the target."""
    of_changes: bool = False
    """Whether a record is one change of its source: what it deletes is deleted in the same place
    of the order, before its rows."""

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that it needs of the rows."""
        return (*self.key, *filter(None, (self.order_by, self.deleted)))


def text_form(type_name: str) -> str:
    """How values of a Postgres type are texts: types of one form have the same text for a value.

    So a key whose column gets another type of its form is found by the texts that the ledger has.
    """
    if type_name.endswith("[]"):
        return f"{text_form(type_name[:-2])}[]"
    scaled = _SCALED.fullmatch(type_name)
    if type_name in _WHOLE or (scaled and int(scaled[1]) <= 0):
        return "whole number"
    if scaled:
        return f"number with {scaled[1]} digits behind the point"
    bare = _LENGTH.sub("", type_name)
    return "text" if bare == "character varying" else bare
