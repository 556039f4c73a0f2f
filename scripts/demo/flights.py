"""The demonstration: 336,776 flights arrive in Postgres exactly once although drivers are killed.

Replays the flights, lets Airflow drain them with two members, kills one in
the middle of a batch and then both until the retries are exhausted, lets the reset restore the
merged checkpoint, rewinds to an older one, runs once more, and proves the result against Kafka.
"""

import time
from dataclasses import dataclass, field

from rich.panel import Panel
from rich.table import Table
from scripts.demo.airflow_api import AirflowApi
from scripts.demo.draining import Warehouse, drivers, kill_drivers
from scripts.demo.flight_data import create_topic, records, replay
from scripts.demo.proof import Proof, prove
from scripts.demo.steps import console, step, wait_for

from tidemark_local.stack import LocalStack

DAG = TOPIC = REGION = "flights"
BATCH_RECORDS = 40_000
MEMBERS = 2


@dataclass(slots=True)
class Story:
    """What happened, for the summary."""

    records: int = 0
    kills: list[str] = field(default_factory=list)
    reset: str = ""
    rewind: str = ""
    work_seconds: float = 0.0
    started: float = field(default_factory=time.monotonic)


def tell(stack: LocalStack) -> bool:
    """Whether the proof holds at the end."""
    story = Story()
    with step("Kafka, Postgres and Airflow"):
        stack.up()
    with step("336,776 real flights into topic flights, 8 partitions"):
        create_topic(stack.kafka.bootstrap, TOPIC)
        story.records = replay(stack.kafka.bootstrap, TOPIC, list(records()))
    api = AirflowApi(stack.airflow.url, stack.airflow.login)
    warehouse = Warehouse(stack.postgres.parameters("warehouse"), REGION)
    for dag in (DAG, f"{DAG}_reset"):
        api.wait_for_dag(dag)
    first_seq = warehouse.head()
    run_with_kills(api, warehouse, story)
    rewind(api, warehouse, story)
    run_to_the_end(api, warehouse, story)
    with step("the proof: Kafka read once more, without Tidemark, against the target"):
        proof = prove(stack.kafka.bootstrap, TOPIC, stack.postgres.parameters("warehouse"))
    console.print(summary(story, proof, warehouse.published_after(first_seq), stack))
    return proof.holds


def run_with_kills(api: AirflowApi, warehouse: Warehouse, story: Story) -> None:
    """A run that loses one member first, and then every driver as often as Airflow tries it."""
    run = f"killed-{time.time_ns()}"
    api.trigger(DAG, run, max_records=BATCH_RECORDS)
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
        state = api.wait(DAG, run)
        tasks = api.tasks(DAG, run)
        if state != "failed" or tasks["reset"] != "success":
            raise RuntimeError(
                f"run {run} ended {state}, reset {tasks['reset']}: not all of its tries were"
                " killed, as on a machine that is busy"
            )
        story.reset = warehouse.last_reset()
        console.print(
            f"  {', '.join(f'{name} {state}' for name, state in tasks.items())}", soft_wrap=True
        )


def kill_in_the_middle(warehouse: Warehouse, story: Story) -> None:
    """Kill all drivers once a batch is half drained; return at once if the run has ended."""
    at = warehouse.head()
    wait_for(
        lambda: (warehouse.is_draining_after(at) and drivers()) or warehouse.run_has_ended(),
        "a batch to be drained, or the run to end",
    )
    seq, pids = warehouse.planned_seq(), kill_drivers()
    if pids:
        names = ", ".join(map(str, pids))
        story.kills.append(f"driver {names}, SIGKILL while batch {seq} was drained")
        console.print(f"  killed {names} while batch {seq} was drained")


def run_to_the_end(api: AirflowApi, warehouse: Warehouse, story: Story) -> None:
    """An undisturbed run: from the merged checkpoint to the end of the topic."""
    run = f"undisturbed-{time.time_ns()}"
    with step("the next run goes on from there, and reads again what was removed"):
        api.trigger(DAG, run, max_records=BATCH_RECORDS)
        state = api.wait(DAG, run)
        if state != "success":
            raise RuntimeError(f"run {run} ended {state}: {api.tasks(DAG, run)}")
    story.work_seconds = warehouse.drain_seconds()


def rewind(api: AirflowApi, warehouse: Warehouse, story: Story) -> None:
    """The reset DAG goes back to the checkpoint before the newest one; 0 is the initial state."""
    run, to_seq = f"rewind-{time.time_ns()}", warehouse.checkpoint_before_head()
    with step(f"rewind to checkpoint {to_seq}: target, ledger and Kafka go back together"):
        params = {"apply": True, "to": str(to_seq), "why": "demonstration"}
        api.trigger(f"{DAG}_reset", run, **params)
        state = api.wait(f"{DAG}_reset", run)
        if state != "success":
            raise RuntimeError(f"rewind {run} ended {state}")
        story.rewind = warehouse.last_rewind()
        console.print(f"  {story.rewind}")


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
