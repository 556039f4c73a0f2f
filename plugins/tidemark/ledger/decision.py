"""A transaction that holds the region lock and the current epoch, and runs named statements."""

from dataclasses import dataclass
from typing import Any

from psycopg2.extensions import cursor as Cursor

from tidemark.postgres.queries import query


@dataclass(frozen=True, slots=True)
class Decision:
    """One deciding transaction of one epoch: all of its statements take effect, or none."""

    cursor: Cursor
    region: str
    epoch: int
    head_seq: int
    next_seq: int

    def _unpublished(self) -> list[tuple[int, int, int, bool]]:
        """Seq, epoch, number of spans and whether all are claimed; the lowest batch first."""
        self._run("unpublished_batches")
        return self.cursor.fetchall()

    def _run(self, name: str, **values: object) -> int:
        """Run a statement; return the number of rows that it changed or found."""
        self.cursor.execute(query(name), {"region": self.region, "epoch": self.epoch, **values})
        return self.cursor.rowcount

    def _one(self, name: str, **values: object) -> tuple[Any, ...] | None:
        self._run(name, **values)
        return self.cursor.fetchone()

    def _number(self, name: str, **values: object) -> int:
        return int(self._one(name, **values)[0])  # type: ignore[index]
