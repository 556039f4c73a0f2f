"""Pages of the reference that the site makes of the code: commands, metrics, Python."""

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer.main
from scripts.docs.markdown_pieces import filled, table

from tidemark.cli.errors import exit_codes
from tidemark.cli.main import app
from tidemark.views.metrics import metrics_of

PACKAGES = {
    "tidemark.airflow": "For DAG files.",
    "tidemark.testing": "For the tests of your own pipelines.",
    "tidemark.decode": "For [decoders of your own](formats-own.md).",
}


def reference_pages() -> dict[str, str]:
    """The pages by their file's name."""
    return {
        "reference-commands.md": "".join(_commands()),
        "reference-metrics.md": _metrics(),
        "reference-python.md": "".join(_python()),
    }


def _commands() -> Iterator[str]:
    yield f"# Commands\n\n```text\n{exit_codes()}\n```\n\n"
    group = typer.main.get_command(app)
    yield from _of_group(group, group.make_context("tidemark", [], resilient_parsing=True))


def _of_group(group: Any, context: Any) -> Iterator[str]:
    for name in group.list_commands(context):
        _, command, _ = group.resolve_command(context, [name])
        inner = command.make_context(name, [], parent=context, resilient_parsing=True)
        if hasattr(command, "list_commands"):
            yield from _of_group(command, inner)
        else:
            yield _command(command, inner)


def _command(command: Any, context: Any) -> str:
    path = context.command_path
    usage = command.get_usage(context).removeprefix("Usage: ").strip()
    rows = [_parameter(one) for one in command.params if not getattr(one, "hidden", False)]
    return (
        f"## {path}\n\n```text\n{' '.join(usage.split())}\n```\n\n{_prose(command.help or '')}\n\n"
        f"{table(('', 'default', 'meaning'), rows)}\n"
    )


def _parameter(one: Any) -> tuple[str, str, str]:
    names = [*getattr(one, "opts", []), *getattr(one, "secondary_opts", [])]
    is_argument = one.param_type_name == "argument"
    shown = (one.metavar or one.name.upper()) if is_argument else ", ".join(names)
    default = "" if one.default in (None, False) or callable(one.default) else f"`{one.default}`"
    return f"`{shown}`", default, (getattr(one, "help", "") or "")


def _prose(text: str) -> str:
    """Help as Markdown: its examples, which begin with $, are code."""
    parts = [
        f"```sh\n{re.sub(r'^[$] ', '', part, flags=re.MULTILINE)}\n```"
        if part.startswith("$ ")
        else part.replace("<", "&lt;").replace("*", "\\*")
        for part in inspect.cleandoc(text).replace("\b", "").split("\n\n")
    ]
    return "\n\n".join(parts)


def _metrics() -> str:
    rows = [
        (f"`{one.name}`", ", ".join(getattr(one, "_labelnames", ())), one.type, one.documentation)
        for one in metrics_of([])
    ]
    text = filled(
        """`tidemark metrics` prints them, `tidemark metrics --serve` answers scrapes. Those of an
        output topic exist only if a pipeline has one. [Observing](observing.md) describes all
        of them, and the [alerts](observing.md#alerts)."""
    )
    return f"# Metrics\n\n{text}\n\n{table(('metric', 'labels', 'kind', 'meaning'), rows)}"


def _python() -> Iterator[str]:
    yield "# Python\n\n"
    for package, text in PACKAGES.items():
        yield f"# {package}\n\n{text}\n\n"
        module = importlib.import_module(package)
        for name in module.__all__:
            yield f"::: {package}.{name}\n\n"
