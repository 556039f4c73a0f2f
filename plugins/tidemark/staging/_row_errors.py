"""Errors of rows on their way into staging. A Spark worker imports this, and little else."""

from tidemark.errors import SchemaMismatch, StagingLost, TargetRefused

SUPPORTED = (
    "boolean, tinyint to bigint, float, double, decimal, string, binary, date, timestamp, "
    "and arrays, structs and maps of these (in Arrow: bool, int8 to int64, float32, float64, "
    "decimal128, string, binary, date32, timestamp[us], list, struct, map)"
)


class ColumnsUnwritable(SchemaMismatch):
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


class ColumnsTooMany(
    SchemaMismatch,
    text="the rows have {columns} columns, and a table of Postgres has at most 1600; {most} are"
    " left for rows beside Tidemark's own. Leave fields out of decode.schema or the transform,"
    " keep several in one column (a struct becomes jsonb), or spread them over several targets",
):
    columns: int
    most: int


class CopyFellShort(
    StagingLost,
    text="{table}: {sent} rows were sent and {copied} copied; roll back and run the attempt again",
):
    table: str
    sent: int
    copied: int


class ValueUnstorable(TargetRefused):
    column: str | None
    sqlstate: str
    condition: str
    limit: str | None = None
    """Which limit of Postgres a row is beyond, in the server's words."""
    encoding: str | None = None
    """Of the database, where a text may be one that it lacks; None: UTF8, or it does not matter."""
    record: str | None = None
    """Of which the row is, as topic[partition]@offset; None: its coordinates are not known."""

    @property
    def guard(self) -> str:
        """What refuses, as a dead letter's detail has it."""
        what = self.limit or (f"column {self.column}" if self.column else "a value")
        of = f", encoding {self.encoding}" if self.encoding else ""
        return f"{what}, when it was staged (SQLSTATE {self.sqlstate} {self.condition}{of})"

    def __str__(self) -> str:
        column = "a column" if self.column is None else f"column {self.column!r}"
        what = (
            f"a row to stage is beyond a limit of Postgres: {self.limit}"
            if self.limit
            else f"{column} of the rows to stage holds a value that Postgres can't store"
        )
        of = f" in a database whose encoding is {self.encoding}" if self.encoding else ""
        return (
            f"{what}{of} (SQLSTATE {self.sqlstate} {self.condition}){_at(self.record)};"
            " correct or drop it in the transform, or set target.on_refused: dead_letter"
        )


class DateHasNoJson(TargetRefused):
    column: str
    arrow_type: str
    record: str | None = None

    @property
    def guard(self) -> str:
        """See `ValueUnstorable`."""
        return f"column {self.column}: a date or timestamp outside the years 1 to 9999"

    def __str__(self) -> str:
        return (
            f"column {self.column!r} ({self.arrow_type}) holds a date or timestamp outside the"
            f" years 1 to 9999, which has no JSON form{_at(self.record)};"
            " cast it to string in the transform"
        )


def _at(record: str | None) -> str:
    return f", of record {record}" if record else ""
