"""`tidemark check`: everything that a run needs, looked at before it is needed."""

from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.check.check import findings_of
from tidemark.cli.output import (
    Format,
    ResultFormat,
    Verbose,
    print_json,
    print_line,
    screen,
    spinning,
)
from tidemark.cli.project import PipelineFile, connection, prepare_spark, started_spark
from tidemark.model.plain import inert, plain
from tidemark.settings.pipeline import Pipeline

if TYPE_CHECKING:
    from tidemark.check.findings import Finding

MARKS = {
    "ok": ("✓", "green"),
    "warned": ("!", "yellow"),
    "failed": ("✗", "red"),
    "skipped": ("–", "dim"),
}


def check(
    pipeline: PipelineFile,
    no_spark: Annotated[
        bool,
        typer.Option(
            "--no-spark",
            help="Do not start Spark: the output of a DataFrame transform is not checked.",
        ),
    ] = False,
    output: Format = ResultFormat.table,
    verbose: Verbose = False,
) -> None:
    """Check everything that a run of the pipeline needs: for CI, and before the first run.

    It checks connections, topics and ACLs; the members' session time-out; Postgres' version,
    durability, role and rights; the ledger's schema; the logins of executors and readers; the
    encryption of connections; whether the region could open now; the declared fields; the first
    records; the transform, and whether its output fits the target. It changes nothing. A dash marks
    a check that could not be done, an exclamation mark a fault that a run survives. With
    `schema: infer` it prints a schema to paste instead of the checks that need a schema.

    Exits with 1 if a check fails, with a remedy for each; 2 if the pipeline file itself is wrong.

      tidemark check dags/flights.yaml
      tidemark check dags/flights.yaml --no-spark -o json
    """
    loaded = Pipeline.load(pipeline, may_infer=True)
    groups = findings_of(
        loaded, connection, started_spark, prepare=prepare_spark, with_spark=not no_spark
    )
    found: list[Finding] = []
    with spinning("checking") as tell:
        for group, findings in groups:
            tell(f"checking {group}")
            found += findings
    failed = sum(one.state == "failed" for one in found)
    if output is ResultFormat.json:
        print_json({"region": loaded.region, "ok": not failed, "checks": plain(found)})
    else:
        _print(loaded.region, found, failed)
    if failed:
        raise typer.Exit(1)


def _print(region: str, found: "list[Finding]", failed: int) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    for one in found:
        mark, style = MARKS[one.state]
        text = Text("\n".join(map(inert, one.fact.split("\n"))))
        if one.remedy:
            text.append("\n→ " + "\n".join(map(inert, one.remedy.split("\n"))), style="bold")
        table.add_row(Text(mark, style=style), Text(one.check), text)
    screen().print(table)
    warned = sum(one.state == "warned" for one in found)
    doubt = f", {warned} to look at" if warned else ""
    verdict = f"{failed} of {len(found)} checks failed" if failed else "all is well"
    print_line(f"region {region}: {verdict}{doubt}", style="red" if failed else "green")
