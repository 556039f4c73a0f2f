"""Errors at the edge: one line on stderr and the documented exit code, never a stack trace.

With `-o json` stdout has the error as data besides.
"""

import signal
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import FrameType
from typing import Any, ClassVar, NoReturn

import typer
from typer.core import TyperGroup

from tidemark.check.errors import as_tidemark_error
from tidemark.cli.faults import CommandGone
from tidemark.cli.output import Format, ResultFormat, is_json, print_json
from tidemark.cli.project import whence
from tidemark.errors import TidemarkError, by_code, error_as_dict
from tidemark.model.plain import inert

INTERRUPTED = 130
TERMINATED = 143

WHOLE_OR_NOT = "it was done whole or not at all"

ENDED = {
    "run": "what was published stays, and the next run goes on from there",
    "reset": f"{WHOLE_OR_NOT}: `tidemark checkpoints`",
    "replay": f"{WHOLE_OR_NOT}: `tidemark dead-letters`, `tidemark checkpoints`",
    "drop": f"{WHOLE_OR_NOT}: `tidemark region actions`",
    "withhold": "the batch is withheld or not: `tidemark region actions`; the next run sends the"
    " rest",
    "mirror": "the ledger stands; `tidemark mirror` again, or the next run, brings Kafka to it",
    "import-offsets": "the group has all of the offsets or none; the same again is no error",
    "migrate": f"{WHOLE_OR_NOT}: `tidemark migrate` again tells",
    "dead-letters": "an export is whole or not there; what a purge has removed is counted in"
    " `tidemark region actions`",
}
"""The state that an interrupted command leaves: its COMMIT may have come first."""


class Terminated(KeyboardInterrupt):
    """SIGTERM: ends like Ctrl-C, with a code of its own."""


class Commands(TyperGroup):
    """A group of commands whose errors end in one readable line; Ctrl-C and SIGTERM end cleanly."""

    gone: ClassVar[Mapping[str, str]] = {}
    """What to do instead of each command that the version before had."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command; one that is gone refuses, and no help lists it."""
        if cmd_name not in self.gone:
            return super().get_command(ctx, cmd_name)
        error = CommandGone(command=cmd_name, instead=self.gone[cmd_name])
        return refusing(cmd_name, str(error), error)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; TidemarkError becomes `CODE: text` and the error's exit code."""
        with suppress(ValueError):  # only the main thread has signals
            signal.signal(signal.SIGTERM, _terminate)
        try:
            return super().invoke(ctx)
        except TidemarkError as error:
            raise failed(error, ctx) from error
        except KeyboardInterrupt as stop:
            is_term = isinstance(stop, Terminated)
            name = "TERMINATED" if is_term else "INTERRUPTED"
            tell(
                f"{name}: {ENDED.get(ctx.invoked_subcommand, 'ended before it was done')}", "yellow"
            )
            raise typer.Exit(TERMINATED if is_term else INTERRUPTED) from None
        except Exception as error:
            if translated := as_tidemark_error(error):
                raise failed(translated, ctx) from error
            raise


def refusing(name: str, text: str, error: TidemarkError) -> Any:
    """A command that takes whatever it is given and ends with the error; its help is the text."""

    def refuse(output: Format = ResultFormat.table) -> None:
        raise error

    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    takes_all = {"ignore_unknown_options": True, "allow_extra_args": True}
    alone.command(name, help=text, context_settings=takes_all)(refuse)
    return typer.main.get_command(alone)


def failed(error: TidemarkError, context: typer.Context) -> typer.Exit:
    """Tell the error, as the command was asked to; the exit to raise for it."""
    tell(error_line(error), "red")
    if is_json(context):
        print_json({"error": error_as_dict(error) | {"hint": error.hint}})
    return typer.Exit(error.exit_code)


def error_line(error: TidemarkError) -> str:
    """The error's code and text, and which local stack it is about."""
    return f"{error.code}: {error}{whence(error)}"


def tell(text: str, style: str = "") -> None:
    """Say something on stderr; markup and control characters are text."""
    from rich.console import Console
    from rich.text import Text

    lines = "\n".join(map(inert, text.split("\n")))
    console = Console(stderr=True, highlight=False)
    console.print(Text(lines, style=style if sys.stderr.isatty() else ""), soft_wrap=True)


def tell_no_pipelines(faults: Iterable[str]) -> None:
    """Say which files of a folder are no pipelines: nothing of them is looked at."""
    for fault in faults:
        tell(f"not a pipeline: {fault}", "yellow")


def exit_codes() -> str:
    """The exit codes with the names of the errors that end in them, as errors.py has them."""
    exits = {code: kind.exit_code for code, kind in by_code().items()}
    lines = [
        "Exit codes:",
        "  0  done",
        "  1  failed, a retry may help; or check, verify, status, mirror --check found a fault",
    ]
    for number in sorted({*exits.values()} - {1}):
        names = ", ".join(code for code in exits if exits[code] == number)
        meaning = "wrong usage or configuration: " if number == 2 else ""
        lines.append(f" {number:2}  {meaning}{names}")
    lines += [f"{INTERRUPTED}  interrupted by Ctrl-C", f"{TERMINATED}  ended by SIGTERM"]
    return "\n".join(lines)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated
