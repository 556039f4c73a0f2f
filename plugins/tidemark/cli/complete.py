"""`tidemark complete`: up to when a region is complete, for people and scripts."""

import time
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemark.cli.dead_letter_filter import time_of
from tidemark.cli.faults import RegionNotComplete
from tidemark.cli.output import (
    Format,
    ResultFormat,
    Verbose,
    in_utc,
    print_json,
    print_line,
    spinning,
)
from tidemark.cli.project import DAGS, PipelinesDir, RegionName, connections_of, find_pipeline
from tidemark.model.plain import age, plain
from tidemark.runs.region import ledger_of
from tidemark.views.completeness import Wanted

if TYPE_CHECKING:
    from tidemark.ledger.queries import Completeness, LedgerQueries

LOOK_SECONDS = 2.0
"""Between two looks at the ledger."""


def complete(
    region: RegionName,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Whether it is complete at this time (UTC without a zone)."
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until it is; without --at, complete at now.")
    ] = False,
    pipelines: PipelinesDir = DAGS,
    output: Format = ResultFormat.table,
    verbose: Verbose = False,
) -> None:
    """Tell up to when all records that Kafka showed are in a region's targets.

    A record that could not become a row counts too: it is a dead letter. A run takes the time, then
    asks Kafka where its logs end. Once the ledger has passed these ends, the region is complete at
    that time: as new as the start of the newest run that is done. A rewind takes it back.

    Only the ledger is asked. For SQL it is the view tidemark.completeness.

    Exits with 23 if the region is not complete at TIME or, without --at, never was. --wait asks
    again every two seconds, until Ctrl-C.

      tidemark complete flights
      tidemark complete flights --at 2026-01-31T12:00:00Z && dbt build
      tidemark complete flights --wait
    """
    pipeline = find_pipeline(region, pipelines).for_readers
    moment = time_of("--at", at)
    with (
        spinning("reading the ledger"),
        ledger_of(connections_of(pipeline)[pipeline.warehouse]) as ledger,
    ):
        queries, name = ledger.queries, pipeline.region
        if wait:
            wanted = Wanted(complete_at=moment or queries.now())
            found = _awaited(queries, name, wanted)
        else:
            wanted = Wanted(complete_at=moment)
            found = queries.completeness([name]).get(name)
        now = queries.now()
    if found is None or found.complete_at is None or not wanted.is_reached(found):
        raise RegionNotComplete(
            region=pipeline.region,
            wanted_at=wanted.complete_at,
            complete_at=found.complete_at if found else None,
        )
    if output is ResultFormat.json:
        print_json(plain(found) | {"age_s": int((now - found.complete_at).total_seconds())})
        return
    for label, value in _facts(found, found.complete_at, now):
        print_line(f"{label:14}{value}")


def _awaited(queries: "LedgerQueries", region: str, wanted: Wanted) -> "Completeness | None":
    while not wanted.is_reached(found := queries.completeness([region]).get(region)):
        time.sleep(LOOK_SECONDS)
    return found


def _facts(found: "Completeness", at: datetime, now: datetime) -> Iterator[tuple[str, Any]]:
    yield "region", found.region
    yield "complete at", f"{in_utc(at)}, {age((now - at).total_seconds())} ago"
    yield "epoch", found.epoch
    yield "head", found.seq
    if found.dead_letters:
        yield "dead letters", f"{found.dead_letters:,}"
    if found.transactions_were_open:
        yield "transactions", "some were open then: their records come later"
    for one in found.accepted:
        yield "lost", f"{one}, accepted by a person: tidemark region actions {found.region}"
