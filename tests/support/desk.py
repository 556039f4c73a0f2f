"""A region in a real ledger with a fake group and made-up facts: the protocol without Kafka.

The log is made up too: which offsets hold a row, a dead letter or nothing is told by the offset.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pyarrow as pa
from sqlalchemy import Engine
from tests.support.fakes import FakeGroup

from tidemark.ledger.ledger import Ledger
from tidemark.ledger.periods import PeriodNews, announce
from tidemark.model.batch import ONLY, Attempt, Batch, Contribution, DeadLetter, SpanRead
from tidemark.model.dead_letters import Limits
from tidemark.model.facts import Facts
from tidemark.model.offsets import Offsets, Span, TopicPartition
from tidemark.model.periods import Calendar
from tidemark.model.plan import Bounds
from tidemark.model.upsert import Upsert
from tidemark.postgres.session import open_session
from tidemark.postgres.transaction import autocommit, transaction
from tidemark.protocol.close import Closed, close
from tidemark.protocol.open import OpenRequest
from tidemark.protocol.plan import plan_batch
from tidemark.protocol.publish import Outcome, contribute_and_publish, publish_complete
from tidemark.protocol.reset import ResetRequest, RewindRequest
from tidemark.protocol.settle import Settled, rewind, settle
from tidemark.staging import tables
from tidemark.staging.columns import columns_of
from tidemark.staging.copy import copy_dead_letters, copy_rows
from tidemark.staging.rewind import RowsOfTargets
from tidemark.staging.tables import record_reads
from tidemark.staging.target import Target
from tidemark.staging.target_writer import TargetWriter, TargetWriters

SCHEMA = pa.schema([("kafka_partition", pa.int32()), ("kafka_offset", pa.int64())])
TOPIC = "made_up"
CLUSTER = "cluster"


def holds_nothing(offset: int) -> bool:
    """Markers, aborted and compacted records take offsets."""
    return offset % 5 == 4


def is_bad(offset: int) -> bool:
    """The record there is a dead letter."""
    return not holds_nothing(offset) and offset % 7 == 3


def is_good(offset: int) -> bool:
    """The record there is a row."""
    return not holds_nothing(offset) and not is_bad(offset)


class Desk:
    """One region: its ledger, its target, a fake group and a made-up log."""

    def __init__(
        self,
        engine: Engine,
        warehouse: dict[str, Any],
        partitions: int = 2,
        schema: pa.Schema = SCHEMA,
        upsert: Upsert | None = None,
    ) -> None:
        self.engine = engine
        self.warehouse = warehouse
        self.region = f"r_{uuid4().hex[:10]}"
        self.ledger = Ledger(engine)
        self.group = FakeGroup(self.region)
        self.ends: Offsets = {TopicPartition(TOPIC, n): 0 for n in range(partitions)}
        self.log_starts: Offsets = dict.fromkeys(self.ends, 0)
        self.topic_id = "id-1"
        self.deletions: dict[str, int | None] | None = None
        self.asked: dict[datetime, Offsets] = {}
        """When each open was about to ask for the ends, and where the logs ended then."""
        self.ahead = timedelta(0)
        """So far ahead is the clock that an open looks at."""
        self.target = Target("public", f"t_{self.region}")
        self.schema = schema
        self.columns = columns_of(schema)
        self.target_writer = TargetWriter(self.target, self.columns, upsert=upsert)
        self.dead_letters_of = dead_letters
        with transaction(engine, "target") as cursor:
            self.target_writers.ensure_targets(cursor)
        self.ledger.create_region(
            self.region, group_id=self.region, targets=self.tables, cluster_id=CLUSTER
        )

    @property
    def target_writers(self) -> TargetWriters:
        """What moves a batch into the region's targets; a test may exchange the writer."""
        return TargetWriters((self.target_writer,))

    @property
    def tables(self) -> dict[str, str]:
        """The region's tables, by the names of their targets."""
        return {one.name: str(one.target) for one in self.target_writers.writers}

    @property
    def facts(self) -> Facts:
        """What the broker would say now."""
        return Facts(
            CLUSTER,
            {TOPIC: self.topic_id},
            dict(self.log_starts),
            dict(self.ends),
            starts=dict(self.log_starts),
            deletions=self.deletions,
        )

    def grow(self, count: int, partition: int = 0) -> None:
        """The log of a partition is longer by `count` offsets."""
        self.ends[TopicPartition(TOPIC, partition)] += count

    @property
    def epoch(self) -> int:
        """The region's epoch as it is now."""
        return self.ledger.epoch(self.region) or 0

    def open(
        self,
        run_id: str = "run",
        bounds: Bounds = Bounds(1000),  # noqa: B008
        overrides: tuple[str, ...] = (),
        limits: Limits = Limits(),  # noqa: B008
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Settled:
        """A run is open; `meanwhile` comes between the look at the clock and the ends."""
        epoch, asked_at = self.epoch, self.ledger.queries.now() + self.ahead
        self.asked[asked_at] = dict(self.ends)
        meanwhile()
        request = OpenRequest(
            run_id=run_id,
            bounds=bounds,
            facts=self.facts,
            epoch=epoch,
            targets=self.tables,
            overrides=overrides,
            limits=limits,
            asked_at=asked_at,
        )
        return settle(self.ledger, self.group, self.region, request)

    def rest(self, minutes: float) -> None:
        """Nobody has opened the region for so long: all that the ledger knows of it is older."""
        past = timedelta(minutes=minutes)
        for table, columns in {
            "runs": ("opened_at", "asked_at", "deletions_until"),
            "partitions": ("known_since",),
            "regions": ("created_at",),
        }.items():
            older = ", ".join(f"{one} = {one} - %s" for one in columns)
            self.sql(
                f"UPDATE tidemark.{table} SET {older} WHERE {self.here}", [past] * len(columns)
            )

    def reset(
        self, run_id: str | None = None, epoch: int | None = None, request_id: str | None = None
    ) -> Settled:
        """The region is reset, by hand unless a run is named."""
        request = ResetRequest("test", "a test", run_id, epoch, request_id=request_id)
        return settle(self.ledger, self.group, self.region, request)

    def rewind(
        self, to_seq: int, overrides: tuple[str, ...] = (), request_id: str | None = None
    ) -> Settled:
        """The region is rewound to a checkpoint, by hand."""
        request = RewindRequest(
            "test",
            "a test",
            to_seq,
            self.facts,
            self.epoch,
            self.tables,
            overrides=overrides,
            request_id=request_id,
        )
        return rewind(self.ledger, self.group, self.published_rows, self.region, request)

    @property
    def published_rows(self) -> RowsOfTargets:
        """What a rewind removes."""
        return RowsOfTargets(self.region, tuple(one.target for one in self.target_writers.writers))

    def close(self, run_id: str = "run") -> Closed:
        """The run is closed."""
        return close(self.ledger, self.group, self.region, run_id)

    def tell(self, epoch: int, calendar: Calendar) -> PeriodNews | None:
        """A close of the epoch is about to tell of periods."""
        with self.ledger.deciding(self.region, epoch, "announce") as tx:
            return announce(tx.cursor, self.region, epoch, calendar)

    def confirm(self, run_id: str) -> None:
        """It has told them."""
        assert self.ledger.confirm_announced(self.region, run_id)

    def join(self, epoch: int) -> int:
        """A member's number."""
        return self.ledger.register_member(self.region, epoch, uuid4(), "m")

    def plan(self, epoch: int) -> Batch | None:
        """The epoch's lowest batch."""
        return next(iter(self.plan_next(epoch)), None)

    def plan_next(self, epoch: int) -> tuple[Batch, ...]:
        """The epoch's batches, one more if there may be one."""
        return plan_batch(self.ledger, self.region, epoch, self.facts)

    def must_plan(self, epoch: int) -> Batch:
        """The epoch's batch, which there must be."""
        batch = self.plan(epoch)
        assert batch is not None
        return batch

    def stage(
        self,
        batch: Batch,
        member: int,
        attempt: int = 0,
        spans: Sequence[Span] | None = None,
        rows: Iterable[pa.RecordBatch] | None = None,
    ) -> Contribution:
        """The spans' rows, dead letters and reads are staged; the contribution that says so.

        `rows` are staged instead of those that the log is made up to hold.
        """
        spans = [p.span for p in batch.spans] if spans is None else spans
        with transaction(self.engine, "staging") as cursor:
            tables.create(cursor, batch.staging, self.columns)
        with closing(open_session(self.warehouse)) as connection:
            staged = copy_rows(
                connection,
                batch.staging,
                ({ONLY: one} for one in (rows if rows is not None else map(row_batch, spans))),
                {ONLY: self.schema},
                member=member,
                attempt=attempt,
                leaves_out=self.target_writer.refused_become_dead_letters,
            )
            with connection, connection.cursor() as cursor:
                reads = []
                for span in spans:
                    bad = self.dead_letters_of(span)
                    copy_dead_letters(cursor, batch.staging, member, attempt, bad)
                    reads.append(SpanRead(span, member, attempt, records(span), len(bad)))
                record_reads(cursor, batch.staging, reads)
        winners = (Attempt(member, attempt, staged),) if staged[ONLY] else ()
        return Contribution(member, tuple(reads), winners)

    def publish(self, batch: Batch, contribution: Contribution) -> Outcome:
        """The contribution is offered to the ledger."""
        return contribute_and_publish(self.ledger, self.target_writers, batch, contribution)

    def publish_complete(self, epoch: int) -> Outcome | None:
        """The lowest batch is published if it is complete."""
        return publish_complete(self.ledger, self.target_writers, self.region, epoch)

    def work(self, epoch: int, member: int | None = None) -> Outcome:
        """One batch is planned, staged and published by one member."""
        batch = self.must_plan(epoch)
        member = self.join(epoch) if member is None else member
        return self.publish(batch, self.stage(batch, member))

    def lose_staging(self) -> None:
        """What recovery does to UNLOGGED tables after a crash of Postgres."""
        for (table,) in self.sql(
            "SELECT oid::regclass::text FROM pg_class WHERE relpersistence = 'u' AND relkind = 'r'"
            " AND relname LIKE %s",
            (self.region + r"\_%",),
        ):
            self.sql(f"TRUNCATE {table}")

    def sql(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement in the warehouse."""
        with autocommit(self.engine) as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    @property
    def here(self) -> str:
        """The condition that leaves out the other regions of the database."""
        return f"region = '{self.region}'"

    def offsets(self) -> Offsets:
        """The merged checkpoint."""
        return self.ledger.merged_checkpoint(self.region).offsets

    @property
    def complete_at(self) -> datetime | None:
        """Up to when the ledger calls the region complete."""
        return self.ledger.queries.completeness([self.region])[self.region].complete_at

    def rows(self) -> list[tuple[int, int]]:
        """Partition and offset of every row of the target, in order."""
        return self.sql(f"SELECT kafka_partition, kafka_offset FROM {self.target} ORDER BY 1, 2")

    def dead_letters(self) -> list[tuple[int, int]]:
        """Partition and offset of the region's dead letters, in order."""
        return self.sql(
            f'SELECT partition, "offset" FROM tidemark.dead_letters WHERE {self.here} ORDER BY 1, 2'
        )

    def expected_rows(self) -> list[tuple[int, int]]:
        """The rows of [initial, next) of every partition, each once."""
        return [(p.partition, o) for p, end in sorted(self.offsets().items())
                for o in range(self.log_starts[p], end) if is_good(o)]  # fmt: skip


def records(span: Span) -> int:
    """Records of a span of the made-up log."""
    return sum(not holds_nothing(offset) for offset in range(span.start, span.end))


def row_batch(span: Span) -> pa.RecordBatch:
    """The rows of a span of the made-up log."""
    good = [offset for offset in range(span.start, span.end) if is_good(offset)]
    columns = [pa.array([span.partition] * len(good), pa.int32()), pa.array(good, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def dead_letters(span: Span) -> list[DeadLetter]:
    """The dead letters of a span of the made-up log."""
    return [
        DeadLetter(*span.topic_partition, offset, None, None, b"bad", (), "INVALID_JSON", "")
        for offset in range(span.start, span.end)
        if is_bad(offset)
    ]
