"""`tidemark run`: the same run as in Airflow, without Airflow; a bar shows how far it is."""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.admin.run import run as run_to_its_end
from tidemark.cli.order import whoami
from tidemark.cli.output import Format, Move, ResultFormat, Verbose, moving, print_json, print_line
from tidemark.cli.project import PipelineFile, connections_of, prepare_spark, started_spark
from tidemark.errors import TidemarkError
from tidemark.model.facts import backlog
from tidemark.model.overrides import (
    ACCEPT_CHANGES,
    ACCEPT_CORRUPT,
    ACCEPT_DATA_LOSS,
    ADOPT_GROUP,
    TAKE_OVER,
)
from tidemark.model.plain import amount, plain
from tidemark.runs.region import region_of
from tidemark.settings.pipeline import Pipeline

if TYPE_CHECKING:
    from tidemark.ledger.ledger import Ledger
    from tidemark.protocol.close import Closed
    from tidemark.settings.endpoints import Connections


log = logging.getLogger(__name__)

POLL_SECONDS = 1.0


@contextmanager
def followed(pipeline: Pipeline, connections: "Connections", move: Move) -> Iterator[None]:
    """While the block runs, the bar shows how far the ledger is; only for a person."""
    if not sys.stderr.isatty():
        yield
        return
    ended = Event()
    thread = Thread(target=_follow, args=(pipeline, connections, move, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(POLL_SECONDS)


def _follow(pipeline: Pipeline, connections: "Connections", move: Move, ended: Event) -> None:
    with region_of(pipeline, connections) as region:
        while not ended.wait(POLL_SECONDS):
            try:
                _show_progress(region.ledger, pipeline.region, move)
            except TidemarkError as error:  # asked again a second later
                log.debug("progress: %s", error)


def _show_progress(ledger: "Ledger", region: str, move: Move) -> None:
    """Show how many of the open run's offsets are published."""
    state = ledger.region_state(region)
    run = ledger.run_at(region, state.epoch) if state else None
    if state is None or run is None or run.state != "open":
        return
    offsets = ledger.merged_checkpoint(region).offsets
    left = backlog(offsets, ledger.target_offsets(region, state.epoch))
    move(
        run.backlog - left,
        run.backlog,
        f"{region}: epoch {state.epoch}, checkpoint {state.head_seq}",
    )


def run(
    pipeline: PipelineFile,
    max_records: Annotated[
        int | None, typer.Option(min=1, help="Offsets in one batch at most; the file's by default.")
    ] = None,
    max_bytes: Annotated[
        int | None,
        typer.Option(
            min=1, help="Bytes of values in one batch at most, estimated from earlier batches."
        ),
    ] = None,
    max_batches: Annotated[int | None, typer.Option(min=1, help="Batches in this run.")] = None,
    max_seconds: Annotated[
        int | None,
        typer.Option(
            min=1, help="Seconds after which no further batch is planned; the first always is."
        ),
    ] = None,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Fence the members of another run that is at work.")
    ] = False,
    adopt_group: Annotated[
        bool,
        typer.Option(
            "--adopt-group", help="Replace the commits that a new region's group already has."
        ),
    ] = False,
    accept_data_loss: Annotated[
        bool,
        typer.Option(
            "--accept-data-loss", help="Continue although Kafka lost records that the ledger needs."
        ),
    ] = False,
    accept_changes: Annotated[
        bool,
        typer.Option(
            "--accept-changes", help="Continue with settings that differ from the checkpoint's."
        ),
    ] = False,
    accept_corrupt: Annotated[
        list[str] | None,
        typer.Option(
            "--accept-corrupt",
            metavar="RANGE",
            help="Leave out these offsets, and no others: 'topic[0]@[10, 20)', as CORRUPT_RECORD"
            " named them. May be given several times.",
        ),
    ] = None,
    output: Format = ResultFormat.table,
    verbose: Verbose = False,
) -> None:
    """Publish all records that Kafka holds now, exactly once: open, drain, close.

    The run stops at the ends of the log that it saw when it opened, or at a bound. If it fails or
    is interrupted, the merged checkpoint is restored, and the next run continues from there.

    --take-over, --adopt-group and each --accept-... lift one refusal (REFUSED); the error names the
    option. The option holds for this run alone. The ledger keeps it, and a remark shows it.

    Exits with 0 only if the ledger says that the run is done.

      tidemark run dags/flights.yaml
      tidemark run dags/flights.yaml --max-records 50000 --max-batches 2
      tidemark run dags/flights.yaml -o json | jq .rows
    """
    loaded = Pipeline.load(pipeline)
    connections = connections_of(loaded)
    given = {
        "max_records": max_records,
        "max_bytes": max_bytes,
        "max_batches": max_batches,
        "max_seconds": max_seconds,
    }
    switches = {
        TAKE_OVER: take_over,
        ADOPT_GROUP: adopt_group,
        ACCEPT_DATA_LOSS: accept_data_loss,
        ACCEPT_CHANGES: accept_changes,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    _log_batches()
    started = time.monotonic()
    overrides = [name for name, on in switches.items() if on]
    overrides += [f"{ACCEPT_CORRUPT} {text}" for text in accept_corrupt or ()]
    closed = _run(loaded, connections, chosen, overrides)
    seconds = round(time.monotonic() - started, 1)
    _print(loaded.region, closed, _remarks(loaded, connections, closed), seconds, output)


def _run(
    pipeline: Pipeline, connections: "Connections", bounds: dict[str, int], overrides: list[str]
) -> "Closed":
    limits = replace(pipeline.bounds(), **bounds)
    prepare_spark(pipeline)
    if ACCEPT_CHANGES in overrides:
        from tidemark.runs.fit import refuse_unfit  # Arrow takes half a second

        refuse_unfit(pipeline, connections)
    with moving(f"opening {pipeline.region}") as move, followed(pipeline, connections, move):
        return run_to_its_end(
            pipeline,
            connections,
            bounds=limits,
            executor_of=started_spark,
            overrides=overrides,
            who=whoami(),
        )


def _remarks(pipeline: Pipeline, connections: "Connections", closed: "Closed") -> list[str]:
    """What was found at open and did not stop the run."""
    with region_of(pipeline, connections) as region:
        found = region.ledger.run_at(region.name, closed.checkpoint.epoch)
    return found.remarks if found else []


def _log_batches() -> None:
    """Where no bar is shown each published batch is a line of the log."""
    if not sys.stderr.isatty():
        logging.getLogger("tidemark.runs").setLevel(logging.INFO)


def _print(
    region: str, closed: "Closed", remarks: list[str], seconds: float, output: ResultFormat
) -> None:
    checkpoint = closed.checkpoint
    if output is ResultFormat.json:
        print_json(
            {
                "region": region,
                "epoch": checkpoint.epoch,
                "seq": checkpoint.seq,
                "batches": closed.batches,
                "rows": closed.rows,
                "dead_letters": closed.dead_letters,
                "records": closed.records,
                "seconds": seconds,
                "remarks": remarks,
                "offsets": plain(checkpoint.offsets),
            }
        )
        return
    for remark in remarks:
        print_line(f"remark: {remark}", style="yellow")
    print_line(
        f"region {region}, epoch {checkpoint.epoch}: {amount(closed.batches, 'batch')},"
        f" {amount(closed.rows, 'row')}, {amount(closed.dead_letters, 'dead letter')}"
        f" in {seconds} s;"
        f" checkpoint {checkpoint.seq} is in the target and in Kafka",
        style="green",
    )
