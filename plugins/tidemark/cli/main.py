"""The command line `tidemark`: its commands, and what `--help` says first."""

import inspect
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tidemark import __version__
from tidemark.cli import region, region_changes, region_move
from tidemark.cli.check import check
from tidemark.cli.checkpoints import checkpoints
from tidemark.cli.dead_letters import dead_letters
from tidemark.cli.errors import Commands, exit_codes
from tidemark.cli.group import group
from tidemark.cli.import_offsets import import_offsets
from tidemark.cli.init import init
from tidemark.cli.metrics import metrics
from tidemark.cli.migrate import migrate
from tidemark.cli.mirror import mirror
from tidemark.cli.offsets import offsets
from tidemark.cli.pack import pack
from tidemark.cli.preview import preview
from tidemark.cli.replay import replay
from tidemark.cli.reset import reset
from tidemark.cli.run import run
from tidemark.cli.status import status
from tidemark.cli.verify import verify
from tidemark.cli.withhold import withhold

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
.tidemark. Every command that answers something prints JSON with -o json.
"""


class LocalCommands(TyperGroup):
    """The commands of `tidemark local`, imported when one of them is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names."""
        return _local().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One of them."""
        return _local().get_command(ctx, cmd_name)


def _local() -> TyperGroup:
    from tidemark.cli import local

    commands = typer.main.get_command(local.app)
    if not isinstance(commands, TyperGroup):
        raise TypeError("tidemark local has lost its commands")
    return commands


def _flowing(text: str) -> str:
    """Each paragraph on one line, for the terminal to wrap; indented ones are commands."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(
        "\n".join(f"$ {line.strip()}" for line in paragraph.splitlines())
        if paragraph.startswith("  ")
        else " ".join(paragraph.split())
        for paragraph in paragraphs
    )


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tidemark {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="tidemark",
    cls=Commands,
    help=_flowing(HELP),
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


for command in (
    init,
    check,
    preview,
    run,
    migrate,
    status,
    group,
    checkpoints,
    offsets,
    import_offsets,
    reset,
    mirror,
    withhold,
    verify,
    dead_letters,
    metrics,
    replay,
    pack,
):
    name = command.__name__.replace("_", "-")
    app.command(name, help=_flowing(command.__doc__ or ""))(command)
regions = typer.Typer(
    no_args_is_help=True,
    help="Regions: list, rename, move and drop them, and what was done to them.",
)
for verb in (
    region.list_,
    region.actions,
    region_changes.rename,
    region_move.move,
    region_changes.drop,
):
    regions.command(verb.__name__.rstrip("_"), help=_flowing(verb.__doc__ or ""))(verb)
app.add_typer(regions, name="region")
app.add_typer(
    typer.Typer(
        cls=LocalCommands,
        no_args_is_help=True,
        help="Kafka, a schema registry, Postgres, Spark and Airflow here, to develop against.",
    ),
    name="local",
)
