"""A region with two targets: of each record an order and its two lines, with a made-up log."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

import psycopg2
import pyarrow as pa
from sqlalchemy import Engine
from tests.support.desk import TOPIC, Desk, is_good, records
from tests.support.desk import dead_letters as dead_letters_of

from tidemark.model.batch import Attempt, Batch, Contribution, SpanRead
from tidemark.model.offsets import Span
from tidemark.model.upsert import Upsert
from tidemark.postgres.transaction import transaction
from tidemark.staging import tables
from tidemark.staging.columns import columns_of
from tidemark.staging.copy import copy_dead_letters, copy_rows
from tidemark.staging.tables import record_reads
from tidemark.staging.target import Target
from tidemark.staging.target_writer import TargetWriter, TargetWriters

PLACE = [
    ("kafka_topic", pa.string()),
    ("kafka_partition", pa.int32()),
    ("kafka_offset", pa.int64()),
]
LINES, ORDERS = "lines", "orders"
SCHEMAS = {
    LINES: pa.schema([("id", pa.int64()), ("of", pa.int64()), ("gone", pa.bool_()), *PLACE]),
    ORDERS: pa.schema([("id", pa.int64()), ("gone", pa.bool_()), *PLACE]),
}
"""Lines refer to orders, and come first by name."""

Parts = Mapping[str, pa.RecordBatch]


class Counter(Desk):
    """One region whose batches become visible in two tables at once."""

    def __init__(
        self, database: tuple[Engine, dict[str, Any]], upserts: Mapping[str, Upsert] = {}
    ) -> None:
        self.upserts = upserts
        self.refused_become_dead_letters = False
        super().__init__(*database)

    @property
    def target_writers(self) -> TargetWriters:
        """The lines first, as a pipeline file might name them."""
        return TargetWriters(
            tuple(
                TargetWriter(
                    self.table(name),
                    columns_of(schema),
                    self.refused_become_dead_letters,
                    self.upserts.get(name),
                )
                for name, schema in SCHEMAS.items()
            )
        )

    def table(self, name: str) -> Target:
        """The table of a target."""
        return Target("public", f"{name}_{self.region}", name)

    def refer(self, how: str = "", child: str = LINES, parent: str = ORDERS) -> None:
        """Rows of one target refer to rows of the other."""
        column = "of" if child == LINES else "id"
        self.sql(f"CREATE UNIQUE INDEX IF NOT EXISTS u_{parent}_{self.region}"
                 f" ON {self.table(parent)} (id)")  # fmt: skip
        self.sql(f"ALTER TABLE {self.table(child)} ADD CONSTRAINT {child}_of_{parent}"
                 f" FOREIGN KEY ({column}) REFERENCES {self.table(parent)} (id) {how}")  # fmt: skip

    def stage_parts(
        self,
        batch: Batch,
        parts: Iterable[Parts] | None = None,
        *,
        attempt: int = 0,
        spans: Sequence[Span] | None = None,
    ) -> Contribution:
        """The rows of both targets are staged by one attempt; the contribution that says so."""
        member = self.join(batch.epoch)
        spans = [one.span for one in batch.spans] if spans is None else spans
        with transaction(self.engine, "staging") as cursor:
            for one in self.target_writers.writers:
                tables.create(cursor, batch.staging.of_target(one.name), one.columns)
        with closing(psycopg2.connect(**self.warehouse)) as connection:
            made = map(parts_of, spans) if parts is None else parts
            rows = copy_rows(
                connection, batch.staging, made, SCHEMAS, member=member, attempt=attempt
            )
            with connection, connection.cursor() as cursor:
                reads = []
                for span in spans:
                    dead_letters = dead_letters_of(span)
                    copy_dead_letters(cursor, batch.staging, member, attempt, dead_letters)
                    reads.append(SpanRead(span, member, attempt, records(span), len(dead_letters)))
                record_reads(cursor, batch.staging, reads)
        return Contribution(member, tuple(reads), (Attempt(member, attempt, rows),))

    def work_on(self, parts: Iterable[Parts] | None = None) -> Any:
        """One batch of a run of its own, which publishes these rows or those of its spans."""
        epoch = self.open(f"run {self.epoch}").epoch
        batch = self.must_plan(epoch)
        return self.publish(batch, self.stage_parts(batch, parts))

    def visible(self, name: str) -> list[tuple[int, ...]]:
        """The rows of a target."""
        columns = "id, of" if name == LINES else "id"
        return self.sql(f"SELECT {columns} FROM {self.table(name)} ORDER BY 1")

    def whole(self) -> tuple[Any, ...]:
        """Everything of the region that may change together."""
        both = [self.sql(f"SELECT * FROM {self.table(name)} ORDER BY id") for name in SCHEMAS]
        kept = [self.sql(f"SELECT * FROM tidemark.{table} WHERE {self.here} ORDER BY 1, 2, 3")
                for table in ("undo", "deleted_keys")]  # fmt: skip
        return *both, *kept, self.offsets(), self.dead_letters()

    def counts(self, name: str) -> list[tuple[int, ...]]:
        """Of each published batch: contributed, moved, deleted, superseded, overwritten."""
        return self.sql(
            "SELECT t.rows_contributed, t.rows_moved, t.rows_deleted, t.rows_superseded,"
            " t.rows_moved - (SELECT l.rows FROM tidemark.rows_left(region, target, 0) l"
            " WHERE l.seq = t.seq) FROM tidemark.batches JOIN tidemark.batch_targets t"
            f" USING (region, seq) WHERE {self.here} AND state = 'published'"
            f" AND target = '{name}' ORDER BY seq"
        )


def rows_at(name: str, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    """Rows of a target, without the topic."""
    whole = [(*row[:-2], TOPIC, *row[-2:]) for row in rows]
    columns = list(zip(*whole, strict=True)) or [()] * len(SCHEMAS[name])
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMAS[name], strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMAS[name])


def parts_of(span: Span) -> Parts:
    """An order and two lines of each good record of a span."""
    good = [offset for offset in range(span.start, span.end) if is_good(offset)]
    ids = [(span.partition * 1000 + offset, offset) for offset in good]
    orders = [(id_, False, span.partition, offset) for id_, offset in ids]
    lines = [
        (id_ * 10 + n, id_, False, span.partition, offset) for id_, offset in ids for n in (1, 2)
    ]
    return {LINES: rows_at(LINES, lines), ORDERS: rows_at(ORDERS, orders)}
