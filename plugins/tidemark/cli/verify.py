"""`tidemark verify`: prove a region against Kafka."""

from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.output import (
    Format,
    ResultFormat,
    Verbose,
    moving,
    print_json,
    print_line,
    print_table,
)
from tidemark.cli.project import (
    DAGS,
    PipelinesDir,
    RegionName,
    connections_of,
    find_pipeline,
    prepare_spark,
    started_spark,
)
from tidemark.model.plain import amount, plain
from tidemark.verify.verify import verify as proof_of_region

if TYPE_CHECKING:
    from tidemark.runs.member import ExecutorOf
    from tidemark.settings.pipeline import Pipeline
    from tidemark.verify.report import BatchProof, Difference, Report


def verify(
    region: RegionName,
    last: Annotated[
        int | None, typer.Option(min=1, help="Only the newest batches; all by default.")
    ] = None,
    pipelines: PipelinesDir = DAGS,
    output: Format = ResultFormat.table,
    verbose: Verbose = False,
) -> None:
    """Prove that the target holds each record of Kafka once, and no other row.

    It reads the spans of each batch again through the same decode and transform, and compares the
    result with the batch's rows, its dead letters and the ledger's counts. Over the whole table it
    finds rows of no published batch, and gaps and overlaps of spans. The transform must be
    deterministic. It writes scratch tables only, and drops them. Runs may work meanwhile.

    Exits with 1 and names the first differences if rows are lost, doubled, altered or foreign.
    Batches that Kafka no longer holds whole are "not verifiable": they are named and counted, but
    alone never make it fail. If a target is gone or lacks batch_seq, all batches are only counted.

      tidemark verify flights
      tidemark verify flights --last 10 -o json
    """
    pipeline = find_pipeline(region, pipelines)
    report = _verified(pipeline, last)
    if output is ResultFormat.json:
        print_json(_shape(report))
    else:
        _print(report)
    if report.wrong:
        raise typer.Exit(1)


def executor_of(pipeline: "Pipeline") -> "ExecutorOf":
    """What reads batches again: Spark, with the project's transform."""
    prepare_spark(pipeline)
    return started_spark


def _verified(pipeline: "Pipeline", last: int | None) -> "Report":
    done = 0
    with moving("starting Spark") as move:

        def tell(proof: "BatchProof | None", batches: int) -> None:
            nonlocal done
            done += proof is not None
            move(done, batches, f"batch {proof.seq}: {proof.verdict}" if proof else "batches")

        return proof_of_region(
            pipeline,
            connections_of(pipeline),
            executor_of=executor_of(pipeline),
            last=last,
            tell=tell,
        )


def _shape(report: "Report") -> dict[str, object]:
    batches = [plain(batch) | {"verdict": batch.verdict} for batch in report.batches]
    derived = {
        "clean": not report.wrong,
        "wrong": report.wrong,
        "unverifiable": report.unverifiable,
        "batches": batches,
    }
    shape: dict[str, object] = plain(report) | derived
    return shape


def _print(report: "Report") -> None:
    if report.batches:
        print_table(
            ("batch", "records", "rows", "dead letters", "wrong", "verdict"),
            [
                (b.seq, b.records, b.rows, b.dead_letters, b.wrong, b.verdict)
                for b in report.batches
            ],
        )
        print_line("")
    for difference in (*report.differences, *(d for b in report.batches for d in b.differences)):
        print_line(_text(difference), style="red")
    for batch in report.batches:
        for gone in batch.unverifiable:
            print_line(f"not verifiable  batch {batch.seq}: {gone}", style="yellow")
    for note in report.notes:
        print_line(f"note  {note}")
    print_line(_summary(report), style="red" if report.wrong else "green")


def _text(difference: "Difference") -> str:
    seq = "" if difference.seq is None else f" of batch {difference.seq}"
    where = f" {difference.where}" if difference.where else ""
    return f"{difference.kind}  {difference.what}{where}{seq}: {difference.detail}"


def _summary(report: "Report") -> str:
    compared = [batch for batch in report.batches if not batch.unverifiable]
    rows, dead_letters = sum(b.rows for b in compared), sum(b.dead_letters for b in compared)
    text = (
        f"region {report.region}: {amount(len(compared), 'batch')} with {amount(rows, 'row')}"
        f" and {amount(dead_letters, 'dead letter')} compared"
    )
    if report.unverifiable:
        text += f", {report.unverifiable} not verifiable"
    return f"{text}; {report.wrong or 'nothing'} wrong"
