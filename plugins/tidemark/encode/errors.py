"""Errors of encoding: Avro can't hold a table, or a value of it."""

from tidemark.errors import Refused

_INSTEAD = (
    "use output.format: json. If its consumers can miss the batch, `tidemark withhold` lets it pass"
)


class ColumnNotOfAvro(
    Refused,
    text="column {column!r}: a field of Avro has a name of letters, digits and _, and no digit"
    " first. Rename the column, or use output.format: json",
):
    column: str


class ValueNotOfAvro(
    Refused,
    text="column {column}: Avro can't hold {value!r} ({cause}). Correct the value, or " + _INSTEAD,
):
    column: str
    value: str
    """How it begins."""
    cause: str


class JsonTooDeep(
    Refused, text="a column's JSON is nested too deep to be read ({cause}): " + _INSTEAD
):
    cause: str
