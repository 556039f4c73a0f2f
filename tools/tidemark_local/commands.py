"""`tidemark local`: Kafka, a schema registry, Postgres, Spark and Airflow on this machine."""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from tidemark.cli.output import Format, ResultFormat, print_json, print_line, print_table, spinning
from tidemark.cli.project import connection
from tidemark.kafka.config import kafka_config
from tidemark.model.plain import amount
from tidemark_local._asking import ask
from tidemark_local._produce import ensure_topic, produce_lines
from tidemark_local.daemon import running
from tidemark_local.errors import ServicesUnknown, StackMissing
from tidemark_local.stack import DEFAULT, SERVICES, LocalStack
from tidemark_local.watch import Tell, silent

local = typer.Typer(
    help="Kafka, a schema registry, Postgres, Spark and Airflow here, to develop against.",
    no_args_is_help=True,
)

CHOSEN = ",".join(DEFAULT)
Services = Annotated[
    str, typer.Option(help=f"Which of them, separated by commas: {', '.join(SERVICES)}.")
]
Dir = Annotated[Path, typer.Option("--dir", help="The folder that holds all state and data.")]


@local.command()
def up(
    services: Services = CHOSEN,
    directory: Dir = Path(".tidemark"),
    output: Format = ResultFormat.table,
) -> None:
    """Start what does not run yet, on the data that is there.

    Java 17 or newer must be installed; Kafka is fetched once (44 MB). The project is the current
    folder: its `dags/` and `plugins/` are Airflow's. `source DIR/env` gives a shell the
    connections. With `spark` they lead to a standalone cluster, a master and two workers of one
    core; `registry` is a real schema registry (Apicurio, 109 MB, fetched once). A server keeps its
    port; where another process took it meanwhile the server moves, and says so.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    names = _chosen(services)
    with _progress() as tell:
        stack = _stack(directory, tell)
        stack.up(names)
    _print(stack, output)


@local.command()
def down(
    directory: Dir = Path(".tidemark"),
    erase: Annotated[bool, typer.Option("--erase", help="Delete state and data too.")] = False,
) -> None:
    """Stop everything, also what a crash has left; the data stays."""
    with _progress() as tell:
        tell("local", "stopping")
        _stack(directory, tell).down(erase=erase)
        tell("local", "nothing of it runs")


@local.command()
def status(directory: Dir = Path(".tidemark"), output: Format = ResultFormat.table) -> None:
    """Print what runs, and where."""
    _print(_stack(directory), output)


@local.command("list")
def list_stacks() -> None:
    """Print the stacks that run on this machine, whatever their folder.

    Those of other accounts are seen by root alone. `tidemark local down --dir FOLDER` stops one.
    """
    found = running()
    if not found:
        print_line("no stack runs")
        return
    print_table(
        ["folder", "processes"],
        [(folder, " ".join(sorted(names))) for folder, names in sorted(found.items())],
    )


@local.command()
def sql(
    statement: Annotated[str, typer.Argument(help="As Postgres reads it.")],
    directory: Dir = Path(".tidemark"),
) -> None:
    """Ask the warehouse of the stack that runs: `SELECT` prints rows, no psql is needed.

    Any statement is carried out, and committed, as the role that owns the warehouse. At most 1,000
    rows are printed.

      tidemark local sql 'SELECT * FROM clicks ORDER BY at LIMIT 3'
    """
    stack = _stack(directory)
    if not stack.folder.exists:
        raise StackMissing(folder=stack.folder.root)
    answer = ask(stack.postgres.parameters(), statement)
    if not answer.columns:
        print_line(answer.status)
        return
    print_table(answer.columns, answer.rows)
    shown = len(answer.rows)
    rest = f", the first {shown:,} are shown" if shown < answer.count else ""
    print_line(f"{amount(answer.count, 'row')}{rest}")


@local.command()
def topic(
    name: Annotated[str, typer.Argument(metavar="TOPIC")],
    partitions: Annotated[int, typer.Option(min=1, help="Of a topic that is created.")] = 4,
) -> None:
    """Create a topic, if it is not there. Kafka is that of `produce`."""
    found = ensure_topic(kafka_config(connection("tidemark_kafka")), name, partitions)
    print_line(f"topic {name} has {amount(found, 'partition')}")


@local.command()
def produce(
    topic: Annotated[str, typer.Argument(help="It is created if it is not there.")],
    file: Annotated[
        typer.FileBinaryRead, typer.Argument(help="A record on each line; - is standard input.")
    ],
    key: Annotated[
        str | None, typer.Option("--key", help="The field of a JSON line that is the record's key.")
    ] = None,
    partitions: Annotated[int, typer.Option(min=1, help="Of a topic that is created.")] = 4,
) -> None:
    """Send the lines of a file to a topic of the stack that runs, each as a record.

    Kafka is that of connection tidemark_kafka: in the environment, else in .tidemark/env.

      tidemark local produce clicks clicks.jsonl --key user
    """
    config = kafka_config(connection("tidemark_kafka"))
    with spinning(f"sending to {topic}"):
        found = ensure_topic(config, topic, partitions)
        count = produce_lines(config, topic, file, key)
    print_line(f"{amount(count, 'record')} sent to topic {topic}, {amount(found, 'partition')}")


@contextmanager
def _progress() -> Iterator[Tell]:
    """Takes what each service is at; shown on stderr: lines, and a spinner for a person."""
    from rich.console import Console

    began, now = time.monotonic(), dict[str, str]()
    console = Console(stderr=True, highlight=False, markup=False)
    spinner = console.status("")

    def tell(service: str, text: str) -> None:
        now[service] = text
        spinner.update("  ".join(f"{name}: {at}" for name, at in now.items()))
        seconds = time.monotonic() - began
        console.print(f"{seconds:6.1f} s  {service:9}{text}", soft_wrap=True)

    if sys.stderr.isatty():
        spinner.start()
    try:
        yield tell
    finally:
        spinner.stop()


def _chosen(services: str) -> list[str]:
    names = [name.strip() for name in services.split(",") if name.strip()]
    if not names or set(names) - set(SERVICES):
        raise ServicesUnknown(given=services, known=SERVICES)
    return names


def _stack(directory: Path, tell: Tell = silent) -> LocalStack:
    return LocalStack(directory, Path.cwd(), tell)


def _print(stack: LocalStack, output: ResultFormat) -> None:
    states = stack.status()
    if output is ResultFormat.json:
        print_json(states)
        return
    if not states:
        print_line(f"nothing was ever started in {stack.folder.root}")
        return
    print_table(
        ["service", "state", "address", "processes"],
        [
            (s.service, "runs" if s.running else "stopped", s.address, " ".join(map(str, s.pids)))
            for s in states
        ],
    )
    running = {state.service for state in states if state.running}
    if "airflow" in running:
        print_line("Airflow login: {} / {}".format(*stack.airflow.login))
    if running:
        print_line(f"Connections for a shell: source {stack.folder.root / 'env'}")
