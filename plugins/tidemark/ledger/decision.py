"""A transaction that holds the region lock and the current epoch, and runs named statements."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from psycopg2.extensions import cursor as Cursor
from psycopg2.extras import Json

from tidemark.model.batch import Batch, Moved
from tidemark.model.contribution import Contribution, SpanRead
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

    def _give_out_seq(self) -> int:
        return self._number("give_out_seq")

    def _write_contribution(self, batch: Batch, contribution: Contribution) -> int:
        return self._number(
            "write_contribution",
            seq=batch.seq,
            member=contribution.member,
            attempts=[winner.attempt for winner in contribution.winners],
            targets=list(contribution.rows),
            rows=list(contribution.rows.values()),
        )

    def _write_moved(self, batch: Batch, moved: Mapping[str, Moved]) -> None:
        rows = [{"target": name, **asdict(one)} for name, one in moved.items()]
        self._run("write_moved", seq=batch.seq, moved=Json(rows))

    def _run(self, name: str, **values: object) -> int:
        """Run a statement; return the number of rows that it changed or found."""
        self.cursor.execute(query(name), {"region": self.region, "epoch": self.epoch, **values})
        return self.cursor.rowcount

    def _one(self, name: str, **values: object) -> tuple[Any, ...] | None:
        self._run(name, **values)
        return self.cursor.fetchone()

    def _number(self, name: str, **values: object) -> int:
        return int(self._one(name, **values)[0])  # type: ignore[index]


def counts_of(reads: Sequence[SpanRead]) -> dict[str, list[Any]]:
    """What the reads found, an array for each column of their spans."""
    return {
        "topics": [read.span.topic for read in reads],
        "partitions": [read.span.partition for read in reads],
        "starts": [read.span.start for read in reads],
        "ends": [read.span.end for read in reads],
        "attempts": [read.attempt for read in reads],
        "records": [read.records for read in reads],
        "dead_letters": [read.dead_letters for read in reads],
        "bytes": [read.bytes for read in reads],
    }
