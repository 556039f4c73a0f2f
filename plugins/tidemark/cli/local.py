"""`tidemark local`: Kafka, Postgres and Airflow on this machine."""

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from tidemark.errors import InvalidSettings, TidemarkError
from tidemark.local.stack import SERVICES, LocalStack

app = typer.Typer(
    help="Kafka, Postgres and Airflow on this machine, to develop against.",
    no_args_is_help=True,
)


class Output(StrEnum):
    """How a result is printed."""

    table = "table"
    json = "json"


Services = Annotated[str, typer.Option(help="Which of them, separated by commas.")]
Dir = Annotated[Path, typer.Option("--dir", help="The folder that holds all state and data.")]
Format = Annotated[Output, typer.Option("--output", "-o", help="How to print the result.")]


@app.command()
def up(
    services: Services = "kafka,postgres,airflow",
    directory: Dir = Path(".tidemark"),
    output: Format = Output.table,
) -> None:
    """Start what does not run yet, on the data that is there.

    Java 17 or newer must be installed; Kafka is fetched once. The project is the current folder:
    its `dags/` and `plugins/` are Airflow's. `source DIR/env` gives a shell the connections.
    """
    with _told() as progress:
        stack = LocalStack(directory, Path.cwd(), progress.tell)
        stack.up(_chosen(services))
    _print(stack, output)


@app.command()
def down(
    directory: Dir = Path(".tidemark"),
    erase: Annotated[bool, typer.Option(help="Delete state and data too.")] = False,
) -> None:
    """Stop everything, also what a crash has left; the data stays."""
    with _told() as progress:
        progress.tell("local", "stopping")
        LocalStack(directory, Path.cwd(), progress.tell).down(erase=erase)


@app.command()
def status(directory: Dir = Path(".tidemark"), output: Format = Output.table) -> None:
    """Print what runs, and where."""
    _print(LocalStack(directory, Path.cwd()), output)


class Progress:
    """Tells what goes on, on stderr: a spinner for a person, plain lines for a file."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._console = Console(stderr=True, highlight=False)
        self._at: dict[str, str] = {}
        self.spinner = self._console.status("")

    def tell(self, service: str, text: str) -> None:
        """The service is at this now."""
        self._at[service] = text
        self.spinner.update("  ".join(f"{name}: {at}" for name, at in self._at.items()))
        seconds = time.monotonic() - self._began
        self._console.print(f"[dim]{seconds:6.1f} s[/dim]  {service:9}{text}", soft_wrap=True)


@contextmanager
def _told() -> Iterator[Progress]:
    """Progress is shown, SIGTERM acts like Ctrl-C, and an error ends in one line and its code."""
    progress = Progress()
    signals = (signal.SIGTERM, signal.SIGINT)  # a shell's background job would ignore the latter
    before = [signal.signal(number, _interrupt) for number in signals]
    try:
        if sys.stderr.isatty():
            progress.spinner.start()
        yield progress
    except TidemarkError as error:
        progress.spinner.stop()
        typer.echo(f"{error.code}: {error}", err=True)
        raise typer.Exit(error.exit_code) from error
    except KeyboardInterrupt:
        progress.spinner.stop()
        typer.echo("interrupted: what was being started is stopped again", err=True)
        raise typer.Exit(130) from None
    finally:
        progress.spinner.stop()
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _chosen(services: str) -> list[str]:
    names = [name.strip() for name in services.split(",") if name.strip()]
    unknown = sorted(set(names) - set(SERVICES))
    if unknown or not names:
        known = ", ".join(SERVICES)
        raise InvalidSettings(f"--services {services!r}: choose among {known}, with commas")
    return names


def _print(stack: LocalStack, output: Output) -> None:
    states = stack.status()
    if output is Output.json:
        typer.echo(json.dumps([asdict(state) for state in states], indent=1))
        return
    if not states:
        typer.echo(f"nothing was ever started in {stack.folder.root}")
        return
    table = Table("service", "state", "address", "processes", box=None, pad_edge=False)
    for state in states:
        pids = " ".join(str(pid) for pid in state.pids)
        table.add_row(state.service, "runs" if state.running else "stopped", state.address, pids)
    Console().print(table)
    if any(state.running for state in states if state.service == "airflow"):
        user, password = stack.airflow.login
        typer.echo(f"Airflow login: {user} / {password}")
    if any(state.running for state in states):
        typer.echo(f"Connections for a shell: source {stack.folder.root / 'env'}")
