"""What the ledger's own work takes: `make bench WHAT=ledger`.

By width: regions of 100 to 50,000 partitions, drained by 1 to 5,000 members, each step with its
time and with the rows and index entries that it touched. By length (`--past`): one region with
1,000 checkpoints of 1,000 partitions. Postgres is real; members and Kafka are simulated: what they
take is not in the figures.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from uuid import uuid4

import psutil
import psycopg2
from psycopg2 import sql
from rich.console import Console
from scripts.bench.ledger_region import WIDTH, MadeUp
from scripts.bench.ledger_tables import (
    Steps,
    Took,
    Widths,
    cpu_milliseconds,
    milliseconds,
    slopes,
    table_of,
    table_of_past,
    touched,
)
from scripts.bench.stack import stack_of
from sqlalchemy import Engine

from tidemark.ledger.ledger import Ledger
from tidemark.ledger.migrate import migrate
from tidemark.model.batch import Contribution
from tidemark.postgres.transaction import autocommit, connect
from tidemark.views.group_health import health_of
from tidemark.views.status import in_ledger
from tidemark_local.postgres import ADMIN
from tidemark_local.stack import LocalStack

PAST = 2
"""Checkpoints of each partition before a region's width is measured."""
BY_PARTITIONS = ((100, 20), (1_000, 20), (10_000, 20), (50_000, 20))
BY_MEMBERS = (50_000, (1, 500, 5_000))
EACH = 300
"""Members whose contributions are measured one by one; what the others have read is one more."""
DISCARDED = 5_000
"""Contributions of a batch that is discarded: many members, many drains cut short."""
console = Console(width=110)


class Measured:
    """Steps on one region, one after another; `took` tells by name what each took."""

    def __init__(self, region: MadeUp) -> None:
        self.region = region
        self.took: dict[str, Took] = {}

    def measure(self, name: str, step: Callable[[], object], times: int = 1) -> None:
        """Take the step and keep what it took; of a step that is many, what each one took."""
        engine = self.region.ledger.engine
        before, begin = used_by(engine), time.monotonic()
        step()
        seconds, after = time.monotonic() - begin, used_by(engine)
        cpu, rows = (late - early for late, early in zip(after, before, strict=True))
        self.took[name] = Took(seconds / times, cpu / times, rows / times)


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


def of_width(ledger: Ledger, partitions: int, members: int) -> Steps:
    """Each step of a run, and what is done between runs, in a region of this width."""
    region = MadeUp(ledger, partitions, PAST)
    region.fill()
    bench, shown = Measured(region), region.region()
    bench.measure("open", region.open)
    share_batch(bench, members)
    bench.measure("merged checkpoint", lambda: ledger.merged_checkpoint(region.name))
    bench.measure("status", lambda: in_ledger(shown))
    region.open((PAST + 1) * WIDTH)
    bench.measure("close", region.close)
    region.open((PAST + 2) * WIDTH)
    region.plan()
    bench.measure("reset: discard", region.reset)
    bench.measure("rewind of 1", lambda: region.rewind(PAST))
    bench.measure("prune of 1", lambda: region.prune(1))
    return bench.took


def of_members(ledger: Ledger, partitions: int, members: Iterable[int]) -> dict[int, Steps]:
    """A batch of a region of this width, drained by so many members."""
    region = MadeUp(ledger, partitions, 1)
    found: dict[int, Steps] = {}
    region.fill()
    for batch, many in enumerate(members, 2):
        region.open(batch * WIDTH)
        bench = Measured(region)
        share_batch(bench, many)
        found[many] = bench.took
    return found


def share_batch(bench: Measured, members: int) -> None:
    """One batch, planned by one member, contributed by all and published by the last."""
    region, ledger = bench.region, bench.region.ledger
    numbers = region.join(members)
    bench.measure("plan", region.plan)
    batch = region.plan()
    *others, last = region.stage(batch, numbers)

    def contribute_others() -> None:
        for one in others[:EACH]:
            region.contribute(batch, one)

    if others:
        own = {read.span.topic_partition for read in others[0].reads}
        look = partial(ledger.unpublished_batches, region.name, own)
        bench.measure("look for own spans", look)
        bench.measure("contribute, each", contribute_others, len(others[:EACH]))
        if rest := [read for one in others[EACH:] for read in one.reads]:
            region.contribute(batch, Contribution(numbers[-2], tuple(rest), ()))
    bench.measure("look of one that waits", lambda: ledger.progress(region.name, batch.epoch))
    shown = region.region()
    bench.measure("group", lambda: health_of(shown))
    bench.measure("publish", lambda: region.contribute(batch, last))


def of_past(ledger: Ledger, partitions: int, checkpoints: int) -> Steps:
    """Each step in a region with a long past."""
    region = MadeUp(ledger, partitions, checkpoints)
    bench, last = Measured(region), checkpoints
    bench.measure("make the region", region.fill)
    bench.measure("open", region.open)
    bench.measure("plan, bound by bytes", region.plan)
    bench.measure("reset: discard the batch", region.reset)
    bench.measure("open again", region.open)
    region.plan()
    region.discard_many(DISCARDED)
    bench.measure(f"reset: discard {DISCARDED:,} contributions", region.reset)
    region.open(ends=last * WIDTH)
    bench.measure("close", region.close)
    bench.measure(
        "look at region_status", lambda: ask(ledger.engine, "TABLE tidemark.region_status")
    )
    bench.measure("checkpoint of a rewind", lambda: ledger.rewind_plan(region.name, last // 2))
    middle = region.facts_up_to(last * WIDTH // 2).ends
    bench.measure("checkpoint before a time", lambda: ledger.checkpoint_before(region.name, middle))
    bench.measure("rewind of 10 checkpoints", lambda: region.rewind(last - 10))
    bench.measure("prune of 20 checkpoints", lambda: region.prune(last - 30))
    bench.measure(f"prune of {last // 2 - 20} checkpoints", lambda: region.prune(last // 2 - 10))
    bench.measure("rewind to the oldest", lambda: region.rewind(last // 2 + 1))
    return bench.took


def ask(engine: Engine, statement: str) -> None:
    """Fetch what a statement gives."""
    with autocommit(engine) as cursor:
        cursor.execute(statement)
        cursor.fetchall()


@contextmanager
def database(stack: LocalStack) -> Iterator[Ledger]:
    """A ledger in a database of its own, dropped at the end."""
    name = sql.Identifier(database := f"ledger_bench_{uuid4().hex[:8]}")
    with closing(psycopg2.connect(**stack.postgres.parameters("postgres", ADMIN))) as admin:
        admin.autocommit = True
        admin.cursor().execute(sql.SQL("CREATE DATABASE {}").format(name))
        engine = connect(stack.postgres.parameters("postgres", ADMIN) | {"dbname": database})
        try:
            migrate(engine)
            yield Ledger(engine)
        finally:
            engine.dispose()
            admin.cursor().execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


def main() -> None:
    """Make regions, work on them, print what it took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--past", action="store_true", help="one region with a long past instead")
    parser.add_argument("--checkpoints", type=int, default=1000, help="of the long past")
    parser.add_argument("--partitions", type=int, default=1000, help="of the long past")
    parser.add_argument("--most", type=int, default=50_000, help="leave wider regions out")
    chosen = parser.parse_args()
    with stack_of("bench", ["postgres"]) as stack, database(stack) as ledger:
        if chosen.past:
            took = of_past(ledger, chosen.partitions, chosen.checkpoints)
            title = f"{chosen.checkpoints:,} checkpoints of {chosen.partitions:,} partitions"
            console.print(table_of_past(took, title))
        else:
            show(of_widths(ledger, chosen.most))


def of_widths(ledger: Ledger, most: int) -> dict[tuple[int, int], Steps]:
    """The steps of each region that has at most so many partitions."""
    found = {}
    for partitions, members in BY_PARTITIONS:
        if partitions <= most:
            found[partitions, members] = of_width(ledger, partitions, members)
            console.print(f"{partitions:,} partitions: measured")
    partitions, many = min(BY_MEMBERS[0], most), BY_MEMBERS[1]
    for members, took in of_members(ledger, partitions, many).items():
        found[partitions, members] = took
    return found


def show(found: Widths) -> None:
    """The tables; the smallest width, which fixed costs rule, is left out of the slopes."""
    alike = {
        partitions: found[partitions, members] for partitions, members in found if members == 20
    }
    steep = {partitions: alike[partitions] for partitions in sorted(alike)[1:]}
    values = {
        "milliseconds": milliseconds,
        "CPU milliseconds of driver and Postgres": cpu_milliseconds,
        "rows and index entries touched": touched,
    }
    for title, value in values.items():
        console.print(table_of(title, found, value, slopes(steep, value)))


if __name__ == "__main__":
    main()
