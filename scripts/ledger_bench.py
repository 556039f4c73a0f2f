"""What the ledger's own work takes in a region with a long past: `python -m scripts.ledger_bench`.

By default 1,000 checkpoints with a span of each of 1,000 partitions, spans stored by partition. The
database is made on the local stack's Postgres (`tidemark local up`) and dropped at the end. Kafka
is left out: the mirror's offsets are kept in memory.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import psycopg2
from psycopg2 import sql
from rich.console import Console
from rich.table import Table
from scripts.ledger_filling import CLUSTER, TOPIC, WIDTH, fill

from tidemark.ledger.ledger import Ledger
from tidemark.ledger.migrate import migrate
from tidemark.local.postgres import ADMIN
from tidemark.local.stack import LocalStack
from tidemark.member import retire
from tidemark.model.bounds import Bounds
from tidemark.model.facts import Facts
from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.postgres.queries import query
from tidemark.postgres.transaction import autocommit, connect
from tidemark.protocol.close import close
from tidemark.protocol.open import OpenRequest
from tidemark.protocol.plan import plan_batch
from tidemark.protocol.reset import ResetRequest, RewindRequest
from tidemark.protocol.settle import rewind, settle

ROOT = Path(__file__).resolve().parent.parent
REGION = "bench"
DISCARDED = 5_000
"""Contributions of a batch that is discarded: many members, many drains cut short."""


@dataclass
class Group:
    """Group offsets in memory."""

    offsets: Offsets = field(default_factory=dict)

    @contextmanager
    def writer(self) -> Iterator["Group"]:
        """Nobody to fence."""
        yield self

    def commit(self, offsets: Offsets, metadata: str) -> None:
        """Keep them."""
        self.offsets |= offsets

    def committed(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """What was kept."""
        return {one: self.offsets[one] for one in partitions}


class NoTarget:
    """A target without rows: what a rewind removes there depends on its indexes."""

    def remove_rows(self, transaction: object, after_seq: int) -> int:
        """There are none."""
        return 0


class Bench:
    """Each step on one region, one after another; `times` are seconds by what was done."""

    def __init__(self, ledger: Ledger, checkpoints: int, partitions: int) -> None:
        self.ledger, self.group = ledger, Group()
        self.checkpoints, self.partitions = checkpoints, partitions
        self.times: dict[str, float] = {}

    def work(self) -> None:
        """Every step, in an order that each can stand in."""
        last, cursor_look = self.checkpoints, autocommit(self.ledger.engine)
        with cursor_look as cursor:
            self.timed("make the region", lambda: self.fill(cursor))
            cursor.execute("VACUUM ANALYZE")
        self.timed("open", self.open)
        self.timed("plan, bound by bytes", self.plan)
        self.timed("reset: discard the batch", self.reset)
        self.timed("open again", self.open)
        self.plan()
        with autocommit(self.ledger.engine) as cursor:
            cursor.execute(_MANY, {"region": REGION, "many": DISCARDED})
        self.timed(f"reset: discard {DISCARDED:,} contributions", self.reset)
        self.open(ends=last * WIDTH)
        self.timed("close", lambda: close(self.ledger, self.group, REGION, "bench"))
        self.timed("look at region_status", lambda: self.ask("TABLE tidemark.region_status"))
        self.timed("checkpoint of a rewind", lambda: self.ledger.rewind_plan(REGION, last // 2))
        self.timed("checkpoint before a time", self.before)
        self.timed("rewind of 10 checkpoints", lambda: self.rewind(last - 10))
        self.timed("prune of 20 checkpoints", lambda: self.prune(last - 30))
        self.timed(f"prune of {last // 2 - 20} checkpoints", lambda: self.prune(last // 2 - 10))
        self.timed("rewind to the oldest", lambda: self.rewind(last // 2 + 1))

    def timed(self, what: str, step: Callable[[], object]) -> None:
        """Take the step and keep how long it took."""
        begin = time.monotonic()
        step()
        self.times[what] = time.monotonic() - begin

    def fill(self, cursor: object) -> None:
        """The region with its past."""
        fill(cursor, REGION, checkpoints=self.checkpoints, partitions=self.partitions)  # type: ignore[arg-type]

    def ask(self, statement: str) -> None:
        """Fetch what a statement gives."""
        with autocommit(self.ledger.engine) as cursor:
            cursor.execute(statement)
            cursor.fetchall()

    def facts(self, ends: int) -> Facts:
        """Kafka holds everything, up to `ends` in each partition."""
        partitions = [TopicPartition(TOPIC, n) for n in range(self.partitions)]
        zeros = dict.fromkeys(partitions, 0)
        return Facts(CLUSTER, {TOPIC: "id-1"}, zeros, dict.fromkeys(partitions, ends), starts=zeros)

    @property
    def epoch(self) -> int:
        """The region's."""
        return self.ledger.epoch(REGION) or 0

    def open(self, ends: int | None = None) -> None:
        """A run with a backlog of a span in each partition, or with none."""
        facts = self.facts(ends or (self.checkpoints + 1) * WIDTH)
        bounds = Bounds(self.partitions * WIDTH, max_bytes=1 << 40)
        request = OpenRequest("bench", bounds, facts, self.epoch, f"public.{REGION}")
        settle(self.ledger, self.group, REGION, request)

    def plan(self) -> None:
        """The next batch."""
        plan_batch(self.ledger, REGION, self.epoch, self.facts((self.checkpoints + 1) * WIDTH))

    def reset(self) -> None:
        """A reset to the head, by hand."""
        settle(self.ledger, self.group, REGION, ResetRequest("bench", "a bench"))

    def before(self) -> None:
        """The checkpoint at or below offsets of the middle."""
        middle = self.checkpoints * WIDTH // 2
        self.ledger.checkpoint_before(REGION, self.facts(middle).ends)

    def rewind(self, to_seq: int) -> None:
        """A rewind; the target has no rows."""
        facts = self.facts((self.checkpoints + 1) * WIDTH)
        request = RewindRequest("bench", "a bench", to_seq, facts, self.epoch)
        rewind(self.ledger, self.group, NoTarget(), REGION, request)

    def prune(self, retain: int) -> None:
        """As many closes prune as it takes."""
        while self.left(retain):
            retire.prune(self.ledger, REGION, self.epoch, retain)

    def left(self, retain: int) -> bool:
        """Whether an older checkpoint is retained still."""
        with autocommit(self.ledger.engine) as cursor:
            cursor.execute(query("prune_up_to"), {"region": REGION, "retain": retain, "step": 1})
            return bool((cursor.fetchone() or (0, None))[1])


_MANY = """
INSERT INTO tidemark.contributions (region, seq, member, attempts, rows)
    SELECT b.region, b.seq, (SELECT min(member) FROM tidemark.members), '{0}', 0
    FROM tidemark.batches b, generate_series(1, %(many)s)
    WHERE b.region = %(region)s AND b.state = 'planned'
"""


def main() -> None:
    """Make the ledger, work on it, print the times."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--checkpoints", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--dir", type=Path, default=ROOT / ".tidemark", help="the local stack's")
    chosen = parser.parse_args()
    server = LocalStack(chosen.dir, ROOT).postgres
    name = sql.Identifier(database := f"ledger_bench_{uuid4().hex[:8]}")
    with closing(psycopg2.connect(**server.parameters("postgres", ADMIN))) as admin:
        admin.autocommit = True
        admin.cursor().execute(sql.SQL("CREATE DATABASE {}").format(name))
        engine = connect(server.parameters("postgres", ADMIN) | {"dbname": database})
        try:
            migrate(engine)
            bench = Bench(Ledger(engine), chosen.checkpoints, chosen.partitions)
            bench.work()
            Console(width=80).print(_table(bench))
        finally:
            engine.dispose()
            admin.cursor().execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


def _table(bench: Bench) -> Table:
    spans = bench.checkpoints * bench.partitions
    table = Table(title=f"{bench.checkpoints:,} checkpoints, {spans:,} spans")
    table.add_column("what")
    table.add_column("seconds", justify="right")
    for what, seconds in bench.times.items():
        table.add_row(what, f"{seconds:.2f}")
    return table


if __name__ == "__main__":
    main()
