"""What encoding can meet: a table, or a value of it, that Avro can't hold."""

from tidemark.errors import Refused

_INSTEAD = (
    "use output.format: json. If its consumers can miss the batch, `tidemark withhold` lets it pass"
)


class ColumnNotOfAvro(Refused):
    """A column has a name that no field of Avro can have."""

    column: str

    def __str__(self) -> str:
        return (
            f"column {self.column!r}: a field of Avro has a name of letters, digits and _, and no"
            " digit first. Rename the column, or use output.format: json"
        )


class ValueNotOfAvro(Refused):
    """A value is none that its column's type of Avro can hold."""

    column: str
    value: str
    """How it begins."""
    cause: str

    def __str__(self) -> str:
        return (
            f"column {self.column}: Avro can't hold {self.value!r} ({self.cause})."
            f" Correct the value, or {_INSTEAD}"
        )


class JsonTooDeep(Refused):
    """A column's JSON is nested deeper than Python reads it."""

    cause: str

    def __str__(self) -> str:
        return f"a column's JSON is nested too deep to be read ({self.cause}): {_INSTEAD}"
