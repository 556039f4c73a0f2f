"""A region that upserts: changes of keys in a real ledger, with a made-up log."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow as pa
from sqlalchemy import Engine
from tests.support.desk import TOPIC, Desk

from tidemark.model.dead_letters import Limits
from tidemark.model.offsets import TopicPartition
from tidemark.model.plan import Bounds
from tidemark.model.upsert import Upsert
from tidemark.protocol.publish import Outcome

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("word", pa.string()),
        ("place", pa.int64()),
        ("gone", pa.bool_()),
        ("kafka_topic", pa.string()),
        ("kafka_partition", pa.int32()),
        ("kafka_offset", pa.int64()),
    ]
)
Change = tuple[int | str | datetime | None, str | None]
"""A key and its word; None deletes it."""


class Shop:
    """A region whose rows are upserted by id; each change takes the next offset of a partition."""

    def __init__(
        self,
        database: tuple[Engine, dict[str, Any]],
        order_by: str | None,
        schema: pa.Schema = SCHEMA,
        key: tuple[str, ...] = ("id",),
    ) -> None:
        upsert = Upsert(key, order_by, "gone")
        self.desk = Desk(*database, schema=schema, upsert=upsert)
        self.epoch = 0
        self.limits = Limits()
        self.overrides: tuple[str, ...] = ()

    def let_be_refused(self, constraint: str = "CHECK (word <> 'bad')") -> None:
        """What the target refuses, and by this constraint it does, becomes a dead letter."""
        self.desk.target_writer = replace(self.desk.target_writer, refused_become_dead_letters=True)
        self.desk.dead_letters_of = lambda span: []  # all records of the log are rows
        self.desk.sql(f"ALTER TABLE {self.desk.target} ADD CONSTRAINT the_guard {constraint}")
        self.limits = Limits(1)

    def publish(self, *partitions: Sequence[Change], places: Sequence[int | str] = ()) -> Outcome:
        """One batch: the changes of each partition, with a value of order_by for each."""
        given = iter(places)
        rows = []
        for number, changes in enumerate(partitions):
            start = self.desk.ends[TopicPartition(TOPIC, number)]
            self.desk.grow(len(changes), number)
            rows += [
                (key, word, next(given, start + n), word is None, TOPIC, number, start + n)
                for n, (key, word) in enumerate(changes)
            ]
        return self.publish_rows(rows)

    def publish_rows(self, rows: Sequence[tuple[Any, ...]]) -> Outcome:
        """One batch with these rows."""
        desk = self.desk
        opened = desk.open(f"run {desk.epoch}", Bounds(1000), self.overrides, self.limits)
        self.epoch = opened.epoch
        batch = desk.must_plan(self.epoch)
        columns = list(zip(*rows, strict=True)) or [()] * len(desk.schema)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, desk.schema, strict=True)]
        staged = pa.RecordBatch.from_arrays(arrays, schema=desk.schema)
        return desk.publish(batch, desk.stage(batch, desk.join(self.epoch), rows=[staged]))

    def dead_letters(self) -> list[tuple[int, int, list[str | None]]]:
        """Partition and offset of each refused record, with the words of its rows."""
        found = self.desk.sql(
            'SELECT partition, "offset", refused_rows FROM tidemark.dead_letters'
            f" WHERE {self.desk.here} ORDER BY seq, 1, 2"
        )
        return [(p, offset, [row["word"] for row in rows]) for p, offset, rows in found]

    def rows(self) -> dict[Any, str]:
        """The target."""
        return dict(self.desk.sql(f"SELECT id, word FROM {self.desk.target}"))

    def whole(self) -> tuple[Any, ...]:
        """Every value of the target, and the deleted keys."""
        deleted = f"SELECT * FROM tidemark.deleted_keys WHERE {self.desk.here} ORDER BY key"
        return self.desk.sql(f"SELECT * FROM {self.desk.target} ORDER BY id"), self.desk.sql(
            deleted
        )

    def counts(self) -> list[tuple[int, ...]]:
        """Of each batch: contributed, moved, deleted, superseded, overwritten."""
        return self.desk.sql(
            "SELECT t.rows_contributed, t.rows_moved, t.rows_deleted, t.rows_superseded,"
            " t.rows_moved - (SELECT l.rows FROM tidemark.rows_left(region, target, 0) l"
            " WHERE l.seq = t.seq) FROM tidemark.batches JOIN tidemark.batch_targets t"
            f" USING (region, seq) WHERE {self.desk.here} AND state = 'published' ORDER BY seq"
        )
