"""A column of rows, in Arrow and in Postgres; whoever has none need not import Arrow."""

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
