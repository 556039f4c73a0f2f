"""A column of rows, in Arrow and in Postgres; whoever has none need not import Arrow."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_SEQ = "batch_seq"
"""The target's column that names the batch of a row; a rewind deletes by it."""

KEYS = ("member", "attempt")
"""The staging columns that say who wrote a row."""

COORDINATES = {"kafka_topic": "text", "kafka_partition": "integer", "kafka_offset": "bigint"}
"""Columns that identify a row's record, with their Postgres types."""

TIMESTAMP, TIMESTAMPTZ = "timestamp without time zone", "timestamp with time zone"


MOST_COLUMNS = 1596
"""A table has 1,600, also the one in which a publish finds the last row of each key, with four."""
MOST_ROW_BYTES = 8160 - 24 - 16
"""Of a row whose values can't be stored elsewhere: a page, without headers and staging's keys."""
_BYTES = {
    "boolean": 1, "smallint": 2, "integer": 4, "real": 4, "date": 4,
    "bigint": 8, "double precision": 8, TIMESTAMP: 8, TIMESTAMPTZ: 8,
}  # fmt: skip
"""Of values that are stored in the row; of all others at least one."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, its Arrow type, and the Postgres type as `format_type` spells it."""

    name: str
    arrow_type: "pa.DataType"
    postgres_type: str
    parsed_as: str = ""
    """The type of the target's column, if that parses this column's text; else empty."""

    @property
    def is_json(self) -> bool:
        """Whether values become JSON text before staging."""
        return self.postgres_type == "jsonb"

    @property
    def is_empty(self) -> bool:
        """Whether the column has no type, only nulls (`lit(None)`)."""
        return str(self.arrow_type) == "null"

    @property
    def copied_type(self) -> "pa.DataType":
        """The Arrow type that COPY encodes."""
        import pyarrow as pa

        return pa.string() if self.is_json else self.arrow_type

    @property
    def staged_name(self) -> str:
        """The name in the staging table, which has columns `member` and `attempt` of its own."""
        return f"{self.name} (data)" if self.name in KEYS else self.name

    @property
    def staged_type(self) -> str:
        """The type in the staging table: the one COPY BINARY sends (pgpq's arrays have no zone)."""
        return f"{TIMESTAMP}[]" if self.needs_zone else self.postgres_type

    @property
    def needs_zone(self) -> bool:
        """Whether the move must restore the time zone, UTC, of an array's elements."""
        return self.postgres_type == f"{TIMESTAMPTZ}[]"


def too_wide(columns: Sequence[Column]) -> int | None:
    """The bytes of a row in which no column is null, if a page has no room for it."""
    size = sum(_BYTES.get(column.postgres_type, 1) for column in columns)
    return size if size > MOST_ROW_BYTES else None
