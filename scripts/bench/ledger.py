"""What the ledger's own work takes: `make bench WHAT=ledger`.

By width: regions of 100 to 50,000 partitions, drained by 1 to 5,000 members, each step with its CPU
time and with the rows and index entries that it touches. By length (`--past`): one region with
1,000 checkpoints of 1,000 partitions. Postgres is real; members and Kafka are simulated: what they
take is not in the figures.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from math import log
from statistics import linear_regression
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import psutil
import psycopg2
import pyarrow as pa
from psycopg2 import sql
from rich.table import Table
from scripts.bench.stack import console, stack_of
from sqlalchemy import Engine

from tidemark.kafka.description import GroupState, Holder, client_id_of
from tidemark.ledger.ledger import Ledger
from tidemark.ledger.migrate import migrate
from tidemark.model.batch import ONLY, Attempt, Batch, Contribution, SpanRead
from tidemark.model.facts import Facts
from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.model.output import OutputRecord, Sent
from tidemark.model.overrides import ACCEPT_CHANGES
from tidemark.model.plan import Bounds
from tidemark.postgres.session import Cursor, query
from tidemark.postgres.transaction import autocommit, connect, transaction
from tidemark.protocol.close import close
from tidemark.protocol.open import OpenRequest
from tidemark.protocol.plan import plan_batch
from tidemark.protocol.publish import contribute_and_publish
from tidemark.protocol.reset import ResetRequest, RewindRequest
from tidemark.protocol.settle import rewind, settle
from tidemark.runs import retire
from tidemark.runs.region import Region
from tidemark.settings.pipeline import Pipeline
from tidemark.staging import tables
from tidemark.staging.columns import columns_of
from tidemark.staging.tables import complete_reads, record_reads
from tidemark.staging.target import Target, ensure
from tidemark.staging.target_writer import TargetWriter, TargetWriters
from tidemark.views.group_health import health_of
from tidemark.views.status import in_ledger
from tidemark_local.postgres import ADMIN

COLUMNS = columns_of(pa.schema([("number", pa.int64())]))
TOPIC = "made_up"
CLUSTER = "cluster"
WIDTH = 10
"""Offsets of each span."""
RUN = 10
"""Checkpoints of each run, with as many members, each with a contribution in each."""
PAST = 2
"""Checkpoints of each partition before a region's width is measured."""
WIDTHS = (
    *((partitions, 20) for partitions in (100, 1_000, 10_000, 50_000)),
    *((50_000, members) for members in (1, 500, 5_000)),
)
"""Partitions and members."""


@dataclass(frozen=True, slots=True)
class Took:
    """What a step took."""

    seconds: float
    cpu: float
    """CPU seconds of the driver and its sessions of Postgres."""
    touched: float
    """Rows of tables read or written, and index entries read."""


Steps = Mapping[str, Took]


def of_width(ledger: Ledger, partitions: int, members: int) -> Steps:
    """Each step of a run, and what is done between runs, in a region of this width."""
    region = MadeUp(ledger, partitions, PAST)
    measure, shown = region.measure, region.region()
    region.fill()
    measure("open", region.open)
    numbers = region.join(members)
    measure("plan", region.plan)
    batch = region.plan()
    *others, last = region.stage(batch, numbers)

    def contribute_others() -> None:
        for one in others:
            region.contribute(batch, one)

    if others:
        own = {read.span.topic_partition for read in others[0].reads}
        measure("look for own spans", lambda: ledger.unpublished_batches(region.name, own))
        measure("contribute, each", contribute_others, times=len(others))
    measure("look of one that waits", lambda: ledger.progress(region.name, batch.epoch))
    measure("group", lambda: health_of(shown))
    measure("publish", lambda: region.contribute(batch, last))
    measure("merged checkpoint", lambda: ledger.merged_checkpoint(region.name))
    measure("status", lambda: in_ledger(shown))
    region.open((PAST + 1) * WIDTH)
    measure("close", region.close)
    region.open((PAST + 2) * WIDTH)
    region.plan()
    measure("reset: discard", region.reset)
    measure("rewind of 1", lambda: region.rewind(PAST))
    measure("prune of 1", lambda: region.prune(1))
    return region.took


def of_past(ledger: Ledger, partitions: int, checkpoints: int) -> Steps:
    """Each step in a region with a long past."""
    region, last = MadeUp(ledger, partitions, checkpoints), checkpoints
    measure = region.measure
    region.fill()
    measure("open", region.open)
    measure("plan, bound by bytes", region.plan)
    measure("reset: discard", region.reset)
    region.open(last * WIDTH)
    measure("close", region.close)
    measure("rewind of 10 checkpoints", lambda: region.rewind(last - 10))
    measure("prune of 20 checkpoints", lambda: region.prune(last - 30))
    region.prune(last // 2 - 10)
    measure("rewind to the oldest", lambda: region.rewind(last // 2 + 1))
    return region.took


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


class MadeUp:
    """One region with a past of `checkpoints` spans in each partition, and its steps."""

    def __init__(self, ledger: Ledger, partitions: int, checkpoints: int) -> None:
        self.name = f"bench_{uuid4().hex[:8]}"
        self.ledger, self.group = ledger, Group(self.name)
        self.checkpoints = checkpoints
        self.took: dict[str, Took] = {}
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

    def measure(self, name: str, step: Callable[[], object], times: int = 1) -> None:
        """Take the step and keep what it took; of a step that is many, what each one took."""
        before, begin = used_by(self.ledger.engine), time.monotonic()
        step()
        seconds, after = time.monotonic() - begin, used_by(self.ledger.engine)
        cpu, rows = (late - early for late, early in zip(after, before, strict=True))
        self.took[name] = Took(seconds / times, cpu / times, rows / times)

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

    def reset(self) -> None:
        """A reset to the head, by hand."""
        settle(self.ledger, self.group, self.name, ResetRequest("bench", "a bench"))

    def rewind(self, to_seq: int) -> None:
        """A rewind; the target has no rows: what one removes there depends on its indexes."""
        no_rows: Any = SimpleNamespace(remove_rows=lambda _, after_seq: {ONLY: 0})
        request = RewindRequest(
            who="bench",
            why="a bench",
            to_seq=to_seq,
            facts=self.facts,
            epoch=self.epoch,
            targets=self.tables,
            overrides=(ACCEPT_CHANGES,),
        )
        rewind(self.ledger, self.group, no_rows, self.name, request)

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
        pipeline = Pipeline.model_validate(
            {
                "region": self.name,
                "kafka": {"connection": "kafka", "topics": [TOPIC]},
                "decode": {"format": "json", "schema": {"number": "long"}},
                "target": {"connection": "postgres", "table": str(self.target)},
            }
        )
        return Region(pipeline, self.ledger, *cast(Any, (broker, self.group, {}, None)))


_JOIN = """
INSERT INTO tidemark.members (region, epoch, uuid, name)
    SELECT region, epoch, gen_random_uuid(), 'm'
    FROM tidemark.regions, generate_series(1, %(members)s)
    WHERE region = %(region)s RETURNING member
"""


# Spans lie by partition, as on a heap that autovacuum has freed and later batches have filled.
_FILLING = """
INSERT INTO tidemark.regions (region, group_id, cluster_id, epoch, head_seq, next_seq)
    VALUES (%(region)s, %(region)s, %(cluster)s, %(checkpoints)s / %(run)s,
            %(checkpoints)s, %(checkpoints)s + 1);
INSERT INTO tidemark.targets (region, target, table_name) VALUES (%(region)s, '', %(target)s);
INSERT INTO tidemark.runs
        (region, epoch, run_id, opening, state, max_records, in_flight,
         dead_letters_max_ratio, backlog)
    SELECT %(region)s, e, e, gen_random_uuid(), 'closed', 1000, 1, 0.5, 1000
    FROM generate_series(1, %(checkpoints)s / %(run)s) e;
INSERT INTO tidemark.members (region, epoch, uuid, name)
    SELECT %(region)s, e, gen_random_uuid(), 'm'
    FROM generate_series(1, %(checkpoints)s / %(run)s) e, generate_series(1, %(members)s);
INSERT INTO tidemark.partitions
        (region, topic, partition, topic_id, initial_offset, next_offset, seq)
    SELECT %(region)s, %(topic)s, n, 'id-1', 0, %(checkpoints)s * %(width)s, %(checkpoints)s
    FROM generate_series(0, %(partitions)s - 1) n;
INSERT INTO tidemark.run_targets
        (region, epoch, topic, partition, target_offset, high_watermark, stable_since)
    SELECT %(region)s, e, %(topic)s, n, e * %(run)s * %(width)s, e * %(run)s * %(width)s,
        clock_timestamp()
    FROM generate_series(1, %(checkpoints)s / %(run)s) e, generate_series(0, %(partitions)s - 1) n;
INSERT INTO tidemark.batches (region, seq, epoch, previous_seq, in_flight, state, spans,
        claimed, records, rows_contributed, rows_moved, dead_letters_contributed,
        dead_letters_moved, published_at)
    SELECT %(region)s, s, (s - 1) / %(run)s + 1, s - 1, 1, 'published', %(partitions)s,
        %(partitions)s, %(width)s * %(partitions)s,
        %(width)s * %(partitions)s - %(dead_letters)s,
        %(width)s * %(partitions)s - %(dead_letters)s,
        %(dead_letters)s, %(dead_letters)s, clock_timestamp()
    FROM generate_series(1, %(checkpoints)s) s;
INSERT INTO tidemark.batch_targets (region, seq, target, rows_contributed, rows_moved,
        rows_refused, rows_deleted, rows_superseded)
    SELECT region, seq, '', rows_contributed, rows_moved, 0, 0, 0
    FROM tidemark.batches WHERE region = %(region)s;
INSERT INTO tidemark.contributions (region, seq, member, attempts, targets, rows)
    SELECT %(region)s, b.seq, m.member, '{0}', '{""}', ARRAY[%(width)s]
    FROM tidemark.batches b JOIN tidemark.members m USING (region, epoch)
    WHERE b.region = %(region)s;
INSERT INTO tidemark.spans (region, seq, partition_id, topic, partition, start_offset, end_offset,
        topic_id, contribution, attempt, records, dead_letters, bytes)
    SELECT %(region)s, s, p.partition_id, p.topic, p.partition,
        (s - 1) * %(width)s, s * %(width)s, 'id-1',
        c.contributions[p.partition %% %(members)s + 1], 0, %(width)s, 0, 1000
    FROM tidemark.partitions p, generate_series(1, %(checkpoints)s) s
    JOIN (SELECT seq, array_agg(contribution) AS contributions FROM tidemark.contributions
          WHERE region = %(region)s GROUP BY seq) c ON c.seq = s
    WHERE p.region = %(region)s ORDER BY p.partition_id, s;
INSERT INTO tidemark.dead_letters
        (region, partition_id, topic, partition, "offset", seq, reason, detail)
    SELECT s.region, s.partition_id, s.topic, s.partition, s.start_offset, s.seq,
        'INVALID_JSON', ''
    FROM tidemark.spans s WHERE s.region = %(region)s AND s.partition < %(dead_letters)s;
"""


def fill(
    cursor: Cursor,
    region: str,
    *,
    checkpoints: int,
    partitions: int,
    members: int = 2,
    dead_letters: int = 1,
    target: str | None = None,
) -> None:
    """The region is there with so many checkpoints, a span of each partition in each.

    `dead_letters` are those of each checkpoint. Statistics are not gathered.
    """
    values: dict[str, Any] = {
        "region": region,
        "target": target or f"public.{region}",
        "cluster": CLUSTER,
        "topic": TOPIC,
        "width": WIDTH,
        "run": RUN,
        "checkpoints": checkpoints,
        "partitions": partitions,
        "members": members,
        "dead_letters": dead_letters,
    }
    cursor.execute(_FILLING, values)


def used_by(engine: Engine) -> tuple[float, int]:
    """Up to now: CPU seconds of this process and its sessions, and the rows that they touched."""
    cpu = time.process_time()
    with ExitStack() as stack:
        for _ in range(max(1, engine.pool.checkedin())):  # type: ignore[attr-defined]
            cursor = stack.enter_context(autocommit(engine))
            times = psutil.Process(cursor.connection.info.backend_pid).cpu_times()
            cpu += times.user + times.system
            cursor.execute("SELECT pg_stat_force_next_flush()")
            cursor.execute("SELECT")
        cursor.execute(_TOUCHED)
        return cpu, int((cursor.fetchone() or (0,))[0])


_TOUCHED = """
SELECT (SELECT sum(seq_tup_read + n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables)
    + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)
"""


def cpu_milliseconds(took: Took) -> float:
    """The CPU time; the kernel counts it in hundredths of a second."""
    return max(took.cpu * 1000, 0.001)


def touched(took: Took) -> float:
    """The rows, at least one."""
    return max(took.touched, 1.0)


def slopes(by_partitions: Mapping[int, Steps], value: Callable[[Took], float]) -> dict[str, float]:
    """By step, how a value grows with the partitions: the slope on log-log, 1 is linear."""
    widths = sorted(by_partitions)
    logs = [log(width) for width in widths]
    return {
        name: linear_regression(
            logs, [log(value(by_partitions[width][name])) for width in widths]
        ).slope
        for name in by_partitions[widths[0]]
    }


def table_of(
    title: str, found: Mapping[tuple[int, int], Steps], value: Callable[[Took], float]
) -> Table:
    """One value of each step by width, and how it grows with the partitions.

    The smallest width, which fixed costs rule, is left out of the slope, which needs two more.
    """
    alike = {width: took for (width, members), took in found.items() if members == WIDTHS[0][1]}
    wide = {width: alike[width] for width in sorted(alike)[1:]}
    steep = slopes(wide, value) if len(wide) > 1 else {}
    table = Table("partitions\nmembers", title=title)
    for partitions, members in found:
        table.add_column(f"{partitions:,}\n{members:,}", justify="right")
    table.add_column("slope", justify="right")
    for name in next(iter(found.values())):
        values = (f"{value(took[name]):,.0f}" if name in took else "-" for took in found.values())
        table.add_row(name, *values, f"{steep[name]:.2f}" if name in steep else "-")
    return table


@contextmanager
def database() -> Iterator[Ledger]:
    """A ledger in a database of its own, in a Postgres that goes at the end."""
    with stack_of(["postgres"]) as stack:
        admin = stack.postgres.parameters("postgres", ADMIN)
        name = f"ledger_bench_{uuid4().hex[:8]}"
        with closing(psycopg2.connect(**admin)) as connection:
            connection.autocommit = True
            connection.cursor().execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        engine = connect(admin | {"dbname": name})
        migrate(engine)
        yield Ledger(engine)
        engine.dispose()


def main() -> None:
    """Make regions, work on them, print what it took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--past", action="store_true", help="one region with a long past instead")
    parser.add_argument("--checkpoints", type=int, default=1000, help="of the long past")
    parser.add_argument("--partitions", type=int, default=1000, help="of the long past")
    parser.add_argument("--most", type=int, default=50_000, help="leave wider regions out")
    chosen = parser.parse_args()
    with database() as ledger:
        if chosen.past:
            table = Table("what", "seconds", "rows touched")
            for what, took in of_past(ledger, chosen.partitions, chosen.checkpoints).items():
                table.add_row(what, f"{took.seconds:.2f}", f"{took.touched:,.0f}")
            console.print(table)
            return
        found = {}
        for width in (one for one in WIDTHS if one[0] <= chosen.most):
            found[width] = of_width(ledger, *width)
            console.print("{:,} partitions, {:,} members: measured".format(*width))
    console.print(table_of("CPU milliseconds of driver and Postgres", found, cpu_milliseconds))
    console.print(table_of("rows and index entries touched", found, touched))


if __name__ == "__main__":
    main()
