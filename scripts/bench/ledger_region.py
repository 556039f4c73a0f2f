"""A region made up for measuring the ledger: a real ledger, members and Kafka only simulated."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pyarrow as pa
from scripts.bench.ledger_filling import CLUSTER, TOPIC, WIDTH, fill

from tidemark.kafka.description import GroupState, Holder, client_id_of
from tidemark.ledger.ledger import Ledger
from tidemark.model.batch import ONLY, Attempt, Batch, Contribution, SpanRead
from tidemark.model.facts import Facts
from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.model.output import OutputRecord, Sent
from tidemark.model.plan import Bounds
from tidemark.postgres.session import query
from tidemark.postgres.transaction import autocommit, transaction
from tidemark.protocol.close import close
from tidemark.protocol.open import ACCEPT_CHANGES, OpenRequest
from tidemark.protocol.plan import plan_batch
from tidemark.protocol.publish import contribute_and_publish
from tidemark.protocol.reset import ResetRequest, RewindRequest
from tidemark.protocol.settle import rewind, settle
from tidemark.runs import retire
from tidemark.runs.region import Region
from tidemark.staging import tables
from tidemark.staging.columns import columns_of
from tidemark.staging.tables import complete_reads, record_reads
from tidemark.staging.target import Target, ensure
from tidemark.staging.target_writer import TargetWriter, TargetWriters

COLUMNS = columns_of(pa.schema([("number", pa.int64())]))


@dataclass
class Group:
    """Group offsets in memory, and members that hold their share of the partitions."""

    group_id: str
    offsets: Offsets = field(default_factory=dict)
    holders: tuple[Holder, ...] = ()
    output: None = None
    """No topic to send rows to."""

    @contextmanager
    def writer(self) -> Iterator["Group"]:
        """Nobody to fence."""
        yield self

    def commit(self, offsets: Offsets, metadata: str, records: Iterable[OutputRecord] = ()) -> None:
        """Keep them."""
        self.offsets |= offsets

    def committed(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """What was kept."""
        return {one: self.offsets[one] for one in partitions}

    def sent(self, partitions: Iterable[TopicPartition]) -> set[Sent]:
        """Nothing: there is no topic to send rows to."""
        return set()

    def describe(self) -> GroupState:
        """The group, stable."""
        return GroupState("stable", holders=self.holders)


class NoTarget:
    """A target without rows: what a rewind removes there depends on its indexes."""

    def remove_rows(self, transaction: object, after_seq: int) -> dict[str, int]:
        """There are none."""
        return {ONLY: 0}


class MadeUp:
    """One region with a past of `checkpoints` spans in each partition, and its steps."""

    def __init__(self, ledger: Ledger, partitions: int, checkpoints: int) -> None:
        self.name = f"bench_{uuid4().hex[:8]}"
        self.ledger, self.group = ledger, Group(self.name)
        self.checkpoints = checkpoints
        self.partitions = [TopicPartition(TOPIC, n) for n in range(partitions)]
        self.target = Target("public", self.name)
        self.target_writers = TargetWriters((TargetWriter(self.target, COLUMNS),))
        self.facts = self.facts_up_to((checkpoints + 1) * WIDTH)

    def fill(self) -> None:
        """The region with its past, which Postgres has gathered statistics of."""
        with transaction(self.ledger.engine, "target") as cursor:
            ensure(cursor, self.target, COLUMNS)
        with autocommit(self.ledger.engine) as cursor:
            fill(
                cursor, self.name, checkpoints=self.checkpoints, partitions=len(self.partitions),
                target=str(self.target),
            )  # fmt: skip
            cursor.execute("VACUUM ANALYZE")

    def facts_up_to(self, end: int) -> Facts:
        """Kafka holds everything, up to `end` in each partition."""
        zeros = dict.fromkeys(self.partitions, 0)
        ends = dict.fromkeys(self.partitions, end)
        return Facts(CLUSTER, {TOPIC: "id-1"}, zeros, ends, starts=zeros)

    @property
    def tables(self) -> dict[str, str]:
        """The table, by the target's name."""
        return {ONLY: str(self.target)}

    @property
    def epoch(self) -> int:
        """The region's."""
        return self.ledger.epoch(self.name) or 0

    def open(self, ends: int | None = None) -> None:
        """A run with a backlog of a span in each partition, or up to `ends`."""
        self.facts = facts = self.facts if ends is None else self.facts_up_to(ends)
        bounds = Bounds(len(self.partitions) * WIDTH, max_bytes=1 << 40)
        request = OpenRequest(
            run_id="bench", bounds=bounds, facts=facts, epoch=self.epoch, targets=self.tables
        )
        settle(self.ledger, self.group, self.name, request)

    def join(self, members: int) -> list[int]:
        """The numbers of so many members, who hold equal shares in the group."""
        share = -(-len(self.partitions) // members)
        with autocommit(self.ledger.engine) as cursor:
            cursor.execute(_JOIN, {"region": self.name, "members": members})
            numbers = [number for (number,) in cursor.fetchall()]
        self.group.holders = tuple(
            Holder(client_id_of(self.name, number), "", tuple(self.partitions[n * share :][:share]))
            for n, number in enumerate(numbers)
        )
        return numbers

    def plan(self) -> Batch:
        """The next batch."""
        batches = plan_batch(self.ledger, self.name, self.epoch, self.facts)
        if not batches:
            raise RuntimeError(f"region {self.name}: there was nothing to plan")
        return batches[0]

    def stage(self, batch: Batch, members: Sequence[int]) -> list[Contribution]:
        """What the members have read, in equal shares; rows are what a batch costs by records."""
        share = -(-len(batch.spans) // len(members))
        spans = [planned.span for planned in batch.spans]
        found = []
        with transaction(self.ledger.engine, "staging") as cursor:
            tables.create(cursor, batch.staging, COLUMNS)
            for number, member in enumerate(members):
                own = spans[number * share :][:share]
                reads = tuple(
                    SpanRead(span=span, member=member, attempt=0, records=WIDTH, dead_letters=0)
                    for span in own
                )
                record_reads(cursor, batch.staging, reads)
                found.append(Contribution(member, reads, (Attempt(member, 0, {ONLY: 0}),)))
        return found

    def contribute(self, batch: Batch, contribution: Contribution) -> None:
        """What one member has staged is claimed; the last one publishes."""
        spans = [read.span for read in contribution.reads]
        with transaction(self.ledger.engine, "reads") as cursor:
            complete_reads(cursor, batch.staging, contribution.member, spans)
        contribute_and_publish(self.ledger, self.target_writers, batch, contribution)

    def discard_many(self, many: int) -> None:
        """Give the planned batch so many contributions, as of drains that were cut short."""
        with autocommit(self.ledger.engine) as cursor:
            cursor.execute(_MANY, {"region": self.name, "many": many})

    def reset(self) -> None:
        """A reset to the head, by hand."""
        settle(self.ledger, self.group, self.name, ResetRequest("bench", "a bench"))

    def rewind(self, to_seq: int) -> None:
        """A rewind; the target has no rows."""
        request = RewindRequest(
            who="bench",
            why="a bench",
            to_seq=to_seq,
            facts=self.facts,
            epoch=self.epoch,
            targets=self.tables,
            overrides=(ACCEPT_CHANGES,),
        )
        rewind(self.ledger, self.group, NoTarget(), self.name, request)

    def close(self) -> None:
        """The end of a run."""
        close(self.ledger, self.group, self.name, "bench")

    def prune(self, retain: int) -> None:
        """As many closes prune as it takes."""
        while self._left(retain):
            retire.prune(self.ledger, self.name, self.epoch, retain)

    def _left(self, retain: int) -> bool:
        """Whether an older checkpoint is retained still."""
        with autocommit(self.ledger.engine) as cursor:
            cursor.execute(query("prune_up_to"), {"region": self.name, "retain": retain, "step": 1})
            return bool((cursor.fetchone() or (0, None))[1])

    def region(self) -> Region:
        """What status and group look at."""
        broker = SimpleNamespace(facts=lambda _: self.facts, gone=lambda _: frozenset())
        pipeline = SimpleNamespace(
            region=self.name, group=self.name, tables=self.tables, max_consecutive_resets=5
        )
        return Region(*cast(Any, (pipeline, self.ledger, broker, self.group, {}, None)))


_JOIN = """
INSERT INTO tidemark.members (region, epoch, uuid, name)
    SELECT region, epoch, gen_random_uuid(), 'm'
    FROM tidemark.regions, generate_series(1, %(members)s)
    WHERE region = %(region)s RETURNING member
"""
_MANY = """
INSERT INTO tidemark.contributions (region, seq, member, attempts, targets, rows)
    SELECT b.region, b.seq, (SELECT min(member) FROM tidemark.members), '{0}', '{""}', '{0}'
    FROM tidemark.batches b, generate_series(1, %(many)s)
    WHERE b.region = %(region)s AND b.state = 'planned'
"""
