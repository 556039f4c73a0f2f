"""The demonstration: 336,776 flights arrive in Postgres exactly once although drivers are killed.

Starts the local stack, replays the flights, lets Airflow drain them with two members, kills one in
the middle of a batch and then both until the retries are exhausted, lets the reset restore the
merged checkpoint, rewinds to an older one, runs once more, and proves the result against Kafka.
What it started goes on running.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import psycopg2
from airflow_api import DONE, AirflowApi
from flight_data import create_topic, records, replay
from proof import Proof, prove
from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from tidemark.errors import TidemarkError
from tidemark.local.stack import LocalStack

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / ".tidemark"
DAG = TOPIC = REGION = "flights"
BATCH_RECORDS = 40_000
MEMBERS = 2
WAIT_SECONDS = 240.0

console = Console()


@dataclass(slots=True)
class Story:
    """What happened, for the summary."""

    records: int = 0
    kills: list[str] = field(default_factory=list)
    reset: str = ""
    rewind: str = ""
    work_seconds: float = 0.0
    started: float = field(default_factory=time.monotonic)


def main() -> int:
    """Tell the story; 0 if the proof holds."""
    story = Story()
    stack = LocalStack(STATE, ROOT, tell=lambda part, text: console.print(f"  {part}: {text}"))
    with step("Kafka, Postgres and Airflow"):
        stack.up()
    with step("336,776 real flights into topic flights, 8 partitions"):
        create_topic(stack.kafka.bootstrap, TOPIC)
        story.records = replay(stack.kafka.bootstrap, TOPIC, list(records()))
    api = AirflowApi(stack.airflow.url, stack.airflow.login)
    warehouse = Warehouse(stack.postgres.parameters("warehouse"))
    for dag in (DAG, f"{DAG}_reset"):
        api.wait_for_dag(dag)
    first_seq = warehouse.head()
    run_with_kills(api, warehouse, story)
    rewind(api, warehouse, story)
    run_to_the_end(api, warehouse, story)
    with step("the proof: Kafka read once more, without Tidemark, against the target"):
        proof = prove(stack.kafka.bootstrap, TOPIC, stack.postgres.parameters("warehouse"))
    console.print(summary(story, proof, warehouse.published_after(first_seq), stack))
    return 0 if proof.holds else 1


def run_with_kills(api: AirflowApi, warehouse: "Warehouse", story: Story) -> None:
    """A run that loses one member first, and then every driver as often as Airflow tries it."""
    run = f"killed-{time.time_ns()}"
    api.trigger(DAG, run, {"max_records": BATCH_RECORDS})
    with step("two members drain; kill one in the middle of a batch, the other takes over"):
        wait_for(lambda: warehouse.draining_members() == MEMBERS, "both members to drain")
        seq, [victim, *_] = warehouse.planned_seq(), drivers()
        victim.kill()
        story.kills.append(
            f"driver {victim.pid}, SIGKILL while batch {seq} was drained: the other took over"
        )
        wait_for(lambda: warehouse.head() >= seq, f"batch {seq} to be published by the other one")
        console.print(f"  killed {victim.pid}; batch {seq} was published without it")
    with step("kill every driver in the middle of a batch, until Airflow's retries are exhausted"):
        while not warehouse.run_has_ended():
            kill_in_the_middle(warehouse, story)
    with step("the run goes red, and its reset restores the merged checkpoint"):
        state = api.wait(DAG, run, WAIT_SECONDS)
        tasks = api.tasks(DAG, run)
        if state != "failed" or tasks["reset"] != "success":
            raise RuntimeError(f"run {run} ended {state}, reset {tasks['reset']}")
        story.reset = warehouse.last_reset()
        console.print(f"  {', '.join(f'{name} {state}' for name, state in tasks.items())}")


def kill_in_the_middle(warehouse: "Warehouse", story: Story) -> None:
    """Kill all drivers once a batch is half drained; return at once if the run has ended."""
    at = warehouse.head()
    wait_for(
        lambda: warehouse.is_draining_after(at) or warehouse.run_has_ended(),
        "a batch to be drained, or the run to end",
    )
    seq, pids = warehouse.planned_seq(), kill_drivers()
    if pids:
        names = ", ".join(map(str, pids))
        story.kills.append(f"driver {names}, SIGKILL while batch {seq} was drained")
        console.print(f"  killed {names} while batch {seq} was drained")
        wait_for(lambda: not drivers(), "the killed drivers to be gone")


def run_to_the_end(api: AirflowApi, warehouse: "Warehouse", story: Story) -> None:
    """An undisturbed run: from the merged checkpoint to the end of the topic."""
    run = f"undisturbed-{time.time_ns()}"
    with step("the next run goes on from there, and reads again what was removed"):
        api.trigger(DAG, run, {"max_records": BATCH_RECORDS})
        wait_for(lambda: api.state(DAG, run) in DONE, f"run {run}")
        state = api.state(DAG, run)
        if state != "success":
            raise RuntimeError(f"run {run} ended {state}: {api.tasks(DAG, run)}")
    story.work_seconds = warehouse.drain_seconds()


def rewind(api: AirflowApi, warehouse: "Warehouse", story: Story) -> None:
    """The reset DAG goes back to the checkpoint before the newest one; 0 is the initial state."""
    run, to_seq = f"rewind-{time.time_ns()}", warehouse.checkpoint_before_head()
    with step(f"rewind to checkpoint {to_seq}: target, ledger and Kafka go back together"):
        params = {"apply": True, "to": str(to_seq), "reason": "demonstration"}
        api.trigger(f"{DAG}_reset", run, params)
        state = api.wait(f"{DAG}_reset", run, WAIT_SECONDS)
        if state != "success":
            raise RuntimeError(f"rewind {run} ended {state}")
        story.rewind = warehouse.last_rewind()
        console.print(f"  {story.rewind}")


def drivers() -> list[psutil.Process]:
    """The Spark drivers of the demo's DAG."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        is_driver = any(word.endswith("jobs/drain.py") for word in words) and "java" not in words[0]
        if is_driver and str(ROOT) in " ".join(words):
            found.append(process)
    return found


def kill_drivers() -> list[int]:
    """SIGKILL the drivers; return their process ids."""
    killed = []
    for process in drivers():
        with suppress(psutil.NoSuchProcess):
            process.kill()
            killed.append(int(process.pid))
    return killed


class Warehouse:
    """What the ledger says, as looks."""

    def __init__(self, parameters: dict[str, Any]) -> None:
        self._parameters = parameters

    def head(self) -> int:
        """Seq of the newest checkpoint."""
        return int(self._value("SELECT max(head_seq) FROM tidemark.regions WHERE region = %s") or 0)

    def planned_seq(self) -> int:
        """Seq of the unpublished batch."""
        statement = "SELECT seq FROM tidemark.batches WHERE region = %s AND state = 'planned'"
        return int(self._value(statement) or 0)

    def is_draining_after(self, seq: int) -> bool:
        """A batch later than `seq` has staged something and is not published."""
        planned = self.planned_seq()
        return planned > seq and bool(
            self._value(
                "SELECT pg_relation_size(c.oid) > 0 FROM pg_class c WHERE c.relname = %s || %s",
                f"_{planned}_rows",
            )
        )

    def run_has_ended(self) -> bool:
        """The newest run is no longer open."""
        statement = (
            "SELECT state <> 'open' FROM tidemark.runs WHERE region = %s"
            " ORDER BY epoch DESC LIMIT 1"
        )
        return bool(self._value(statement))

    def draining_members(self) -> int:
        """Members of the newest epoch that drain."""
        statement = (
            "SELECT count(*) FROM tidemark.members m JOIN tidemark.regions r USING (region, epoch)"
            " WHERE m.region = %s AND m.state = 'draining'"
        )
        return int(self._value(statement))

    def checkpoint_before_head(self) -> int:
        """Seq of the second newest checkpoint."""
        statement = (
            "SELECT seq FROM tidemark.batches WHERE region = %s AND state = 'published'"
            " ORDER BY seq DESC OFFSET 1 LIMIT 1"
        )
        return int(self._value(statement))

    def last_rewind(self) -> str:
        """What the newest rewind took back."""
        return str(
            self._value(
                "SELECT format('from checkpoint %%s to %%s: %%s rows and %%s dead letters removed',"
                " from_seq, to_seq, rows_removed, dead_letters_removed) FROM tidemark.resets"
                " WHERE region = %s ORDER BY reset_id DESC LIMIT 1"
            )
        )

    def published_after(self, seq: int) -> tuple[int, int]:
        """Batches and rows of the checkpoints after `seq`."""
        published = "FROM tidemark.batches WHERE region = %s AND state = 'published' AND seq > %s"
        batches = self._value(f"SELECT count(*) {published}", seq)
        return int(batches), int(
            self._value(f"SELECT coalesce(sum(rows_moved), 0) {published}", seq)
        )

    def drain_seconds(self) -> float:
        """From the plan to the publish, over the batches of the newest run."""
        return float(
            self._value(
                "SELECT extract(epoch FROM sum(published_at - planned_at)) FROM tidemark.batches"
                " WHERE region = %s AND epoch = (SELECT max(epoch) FROM tidemark.batches)"
            )
        )

    def last_reset(self) -> str:
        """What the newest reset did."""
        return str(
            self._value(
                "SELECT format('epoch %%s fenced everyone, batch %%s discarded, Kafka set to"
                " checkpoint %%s', epoch, discarded_seqs, to_seq)"
                " FROM tidemark.resets WHERE region = %s ORDER BY reset_id DESC LIMIT 1"
            )
        )

    def _value(self, statement: str, *values: object) -> Any:
        with psycopg2.connect(**self._parameters) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT to_regclass('tidemark.resets') IS NULL")
            if (cursor.fetchone() or [True])[0]:
                return 0  # before the region's first run
            cursor.execute(statement, (REGION, *values))
            found = cursor.fetchone()
        connection.close()
        return found[0] if found else 0


def summary(story: Story, proof: Proof, published: tuple[int, int], stack: LocalStack) -> Panel:
    """One readable page."""
    batches, rows = published
    user, password = stack.airflow.login
    table = Table.grid(padding=(0, 2))
    table.add_row("flights replayed", f"{story.records:,}")
    table.add_row("published", f"{rows:,} rows in {batches} batches")
    for number, kill in enumerate(story.kills):
        table.add_row("" if number else "killed", kill)
    table.add_row("reset", story.reset)
    table.add_row("rewind", story.rewind)
    table.add_row("last run", f"{story.work_seconds:.1f} s of batches, Spark's start excluded")
    verdict = "[bold green]exactly once[/]" if proof.holds else "[bold red]BROKEN[/]"
    table.add_row(
        "proof",
        f"{verdict}: {proof.records:,} committed records, {proof.rows:,} rows,"
        f" {proof.lost} lost, {proof.foreign} doubled or foreign",
    )
    table.add_row("took", f"{time.monotonic() - story.started:.0f} s")
    table.add_row("Airflow", f"{stack.airflow.url}  user {user}  password {password}")
    table.add_row("Kafka", stack.kafka.bootstrap)
    table.add_row("Postgres", f"127.0.0.1:{stack.postgres.port}, database warehouse")
    table.add_row("next", "make down stops all of it; tidemark status flights looks inside")
    return Panel(table, title="Tidemark", expand=False)


def wait_for(is_so: Callable[[], bool], what: str) -> None:
    """Return when it is so.

    Raises:
        TimeoutError: it was not, for WAIT_SECONDS.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {WAIT_SECONDS:.0f} s for {what}")
        time.sleep(0.05)


@contextmanager
def step(text: str) -> Iterator[None]:
    """Say what is done, with a spinner in a terminal, and how long it took."""
    started = time.monotonic()
    with console.status(text):
        yield
    console.print(f"[green]✓[/] {text} [dim]({time.monotonic() - started:.1f} s)[/]")


if __name__ == "__main__":
    os.environ.setdefault("NO_PROXY", "127.0.0.1")
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        console.print("interrupted; make down stops what still runs")
        sys.exit(130)
    except (TidemarkError, RuntimeError, TimeoutError, OSError, psycopg2.Error) as error:
        console.print(f"[red]failed:[/] {error}")
        sys.exit(1)
