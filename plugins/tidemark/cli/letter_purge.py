"""The purge of `tidemark dead-letters`: what it removes, or would."""

import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.faults import OptionsClash, OptionsWithout, PurgeWithoutAge
from tidemark.cli.order import DRY, order_of
from tidemark.cli.output import Output, print_json, print_line
from tidemark.cli.progress import moving
from tidemark.cli.project import connections_of
from tidemark.model.amount import amount

if TYPE_CHECKING:
    from tidemark.model.dead_letters import LetterFilter
    from tidemark.operations.purge import PurgeReport
    from tidemark.settings.pipeline import Pipeline

Purge = Annotated[
    bool, typer.Option("--purge", help="Remove those that are meant and older than --older-than.")
]
OlderThan = Annotated[
    str | None,
    typer.Option(metavar="AGE", help="For --purge: 30d or 12h since their batch was published."),
]

_AGE = re.compile(r"([0-9]{1,6})([dh])")
_UNITS = {"d": "days", "h": "hours"}


def refuse_mixed(export: Path | None, older_than: str | None, *, purge: bool, apply: bool) -> None:
    """Refuse options that would be passed over: an export removes nothing.

    Raises:
        InvalidSettings: names them.
    """
    if purge and export:
        raise OptionsClash(options=("--export", "--purge"), order="export first, then purge")
    given = {"--older-than": older_than is not None, "--apply": apply}
    lone = tuple(name for name, is_given in given.items() if is_given)
    if lone and not purge:
        raise OptionsWithout(options=lone, needed="--purge")


def purge(
    pipeline: "Pipeline",
    meant: "LetterFilter",
    older_than: str | None,
    why: str,
    output: Output,
    *,
    apply: bool,
) -> None:
    """Purge, or say what that would remove."""
    from tidemark.operations.purge import purge_letters

    age, order = _age(older_than), order_of(why, apply=apply)
    connections = connections_of(pipeline)
    with moving("dead letters") as move:
        report = purge_letters(
            pipeline,
            connections,
            meant,
            age,
            order,
            lambda done, of: move(done, of, "dead letters"),
        )
    if output is Output.json:
        print_json(report)
    else:
        _print(report)


def _age(text: str | None) -> timedelta:
    found = _AGE.fullmatch(text or "")
    if not found:
        raise PurgeWithoutAge(given=text)
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _print(report: "PurgeReport") -> None:
    done = "" if report.applied else ", dry run"
    print_line(f"region {report.region}: purge of dead letters{done}")
    print_line(f"  published before  {report.until.isoformat(timespec='seconds')}")
    for reason, count in report.by_reason.items():
        print_line(f"  removed           {count} {reason}")
    for reason, count in report.left.items():
        print_line(f"  left              {count} {reason}: verify needs the rows that were refused")
    if report.unsent:
        print_line(f"  left              {report.unsent}, which are not sent to their topic yet")
    print_line(f"  all               {amount(report.dead_letters, 'dead letter')}")
    if not report.applied:
        print_line(DRY)
