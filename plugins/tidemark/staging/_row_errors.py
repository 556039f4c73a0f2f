"""What rows can meet on their way into staging. A Spark worker imports this, and little else."""

from tidemark.errors import SchemaMismatch, StagingLost, TargetRefused

SUPPORTED = (
    "boolean, tinyint to bigint, float, double, decimal, string, binary, date, timestamp, "
    "and arrays, structs and maps of these (in Arrow: bool, int8 to int64, float32, float64, "
    "decimal128, string, binary, date32, timestamp[us], list, struct, map)"
)


class ColumnsUnwritable(SchemaMismatch):
    """Postgres can't hold columns of the transform's rows; or they have none."""

    names: tuple[tuple[str, str], ...]
    """Columns, each with what is wrong with its name."""
    types: tuple[tuple[str, str], ...]
    """Columns, each with its Arrow type, which Postgres lacks."""

    def __str__(self) -> str:
        faults = [
            *(f"column {name!r} {fault}; rename it in the transform" for name, fault in self.names),
            *(
                f"column {name!r} has type {kind}, which Postgres lacks; "
                f"cast it in the transform to one of: {SUPPORTED}"
                for name, kind in self.types
            ),
        ]
        return "the transform's columns can't be written to Postgres:\n  " + "\n  ".join(
            faults or ["it has no columns; keep at least one in the transform"]
        )


class CopyFellShort(StagingLost):
    """A staging table took fewer rows than were sent."""

    table: str
    sent: int
    copied: int

    def __str__(self) -> str:
        return (
            f"{self.table}: {self.sent} rows were sent and {self.copied} copied; "
            "roll back and run the attempt again"
        )


class ValueUnstorable(TargetRefused):
    """Postgres can't store a value, such as a NUL in a text."""

    column: str | None
    sqlstate: str
    condition: str
    """The SQLSTATE's name."""

    def __str__(self) -> str:
        column = "a column" if self.column is None else f"column {self.column!r}"
        return (
            f"{column} of the rows to stage holds a value that Postgres can't store "
            f"(SQLSTATE {self.sqlstate} {self.condition}); correct or drop it in the transform"
        )


class DateHasNoJson(TargetRefused):
    """A nested date or timestamp lies outside the years that JSON has a form for."""

    column: str
    arrow_type: str

    def __str__(self) -> str:
        return (
            f"column {self.column!r} ({self.arrow_type}) holds a date or timestamp outside the "
            "years 1 to 9999, which has no JSON form; cast it to string in the transform"
        )
