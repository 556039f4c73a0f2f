"""The command line `tidemark`: its commands, and what `--help` says first."""

import importlib
from types import MappingProxyType, ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from tidemark import __version__
from tidemark.cli.errors import Commands, exit_codes, refusing
from tidemark.cli.output import flowing
from tidemark.errors import MissingExtra, packages_of

HELP = """Kafka to Postgres with exactly-once offsets: look at regions, run and prove them.

A new pipeline:

  tidemark init flights --topic flights
  tidemark check dags/flights.yaml
  tidemark preview dags/flights.yaml
  tidemark run dags/flights.yaml

A region on call:

  tidemark status flights
  tidemark group flights
  tidemark verify flights --last 10
  tidemark reset flights

Connections come from AIRFLOW_CONN_<ID> in the environment, else from the local stack in
.tidemark. Commands that answer with a report or a table print JSON with -o json.
"""

COMMANDS = {
    "init": "Write a pipeline of your own, from the first records of a topic.",
    "check": "Check everything that a run of the pipeline needs: for CI, and before the first run.",
    "preview": "Show the first records that Kafka holds as rows; it writes nothing.",
    "run": "Publish all records that Kafka holds now, exactly once: open, drain, close.",
    "migrate": "Bring the ledger in the target's database to this version's schema.",
    "status": "Show the state of a region, or, without REGION, one line for each.",
    "complete": "Tell up to when all records that Kafka showed are in a region's targets.",
    "group": "Show the members of a region's consumer group, their partitions, and the slowest "
    "member.",
    "checkpoints": "List a region's checkpoints, newest first.",
    "offsets": "Export a region's merged checkpoint: the next offset of each partition, by the "
    "ledger.",
    "import-offsets": "Give the group of a region that never opened the offsets of a checkpoint, "
    "or of a group.",
    "reset": "Fence every process, discard unpublished batches, set Kafka's offsets equal to the "
    "ledger's.",
    "mirror": "Set Kafka's group offsets equal to the ledger's merged checkpoint, and read them "
    "back.",
    "withhold": "Never send a published batch to the output topic: its consumers miss its rows.",
    "audit": "Compare a table that another tool fills with its topic: what is lost, doubled, "
    "altered.",
    "verify": "Prove that the target holds each record of Kafka once, and no other row.",
    "dead-letters": "List a region's dead letters, newest batch first.",
    "metrics": "Print the state of regions as Prometheus metrics, or serve them.",
    "replay": "Make rows of dead letters that can be decoded now, each once.",
    "region": "Regions: list and drop them, and what was done to them.",
    "local": "Kafka, a schema registry, Postgres, Spark and Airflow here, to develop against.",
}
"""Each command and its summary, in the order of the help."""

MODULES = {"checkpoints": "offsets", "import-offsets": "offsets"}
"""The module of a command, where it is not named as the command is."""

PACKAGED = {"local": "tidemark_local.commands"}
"""The module of a command that another package has: the extra of the command's name brings it."""


class Tidemark(Commands):
    """The table of commands: help reads the table, and only a command that is run is imported."""

    gone = MappingProxyType({"pack": "make a venv and pack it with tar: docs/clusters.md"})

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names."""
        return [*COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command as the help lists it: its name and its summary."""
        if cmd_name in COMMANDS:
            return TyperCommand(cmd_name, help=COMMANDS[cmd_name])
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command itself, with the words that are left for it."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, command_of(name) if name in COMMANDS else found, rest


def command_of(name: str) -> Any:
    """The command, or the group of commands, of this name; its module is imported now."""
    try:
        found = getattr(_module_of(name), name.replace("-", "_"))
    except MissingExtra as missing:
        return refusing(name, f"{COMMANDS[name]}\n\n{missing}.", missing)
    if isinstance(found, typer.Typer):
        return typer.main.get_group(found)
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
    alone.command(name, help=flowing(found.__doc__))(found)
    return typer.main.get_command(alone)


def _module_of(name: str) -> ModuleType:
    if name not in PACKAGED:
        word = name.replace("-", "_")
        return importlib.import_module(f"tidemark.cli.{MODULES.get(name, word)}")
    with packages_of(name, f"tidemark {name}"):
        return importlib.import_module(PACKAGED[name])


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tidemark {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="tidemark",
    cls=Tidemark,
    help=flowing(HELP),
    epilog=exit_codes(),
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,  # a traceback with locals would show secrets
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """See HELP."""
