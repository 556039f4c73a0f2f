"""`tidemark audit`: compare a table that another tool fills with its topic."""

from contextlib import ExitStack
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.dead_letter_filter import time_of
from tidemark.cli.faults import OptionsClash, OptionUnreadable
from tidemark.cli.output import (
    Format,
    ResultFormat,
    Verbose,
    moving,
    print_json,
    print_line,
    print_table,
)
from tidemark.cli.project import PipelineFile, connections_of, prepare_spark
from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.model.plain import amount, plain
from tidemark.settings.pipeline import Pipeline
from tidemark.verify.audit import AuditQuestion
from tidemark.verify.audit import audit as compared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemark.verify.report import AuditReport, Difference


def audit(
    pipeline: PipelineFile,
    group: Annotated[
        str | None,
        typer.Option(help="The consumer group of the tool that fills the table: connect-NAME."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="TIME|FILE",
            help="Up to where the table is filled: a time (UTC without a zone), or a file of"
            " topic,partition,offset lines.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME|FILE", help="From where on: a tool that began later than the log."
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Leave this column out; may be given several times."),
    ] = None,
    coordinates: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC,PARTITION,OFFSET",
            help="What the table calls a record's coordinates, if not kafka_* or __connect_*.",
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=100_000, help="Differences of each kind to name.")
    ] = 10,
    output: Format = ResultFormat.table,
    verbose: Verbose = False,
) -> None:
    """Compare a table that another tool fills with its topic: what is lost, doubled, altered.

    Kafka Connect, Flink, Spark or a script may fill the table of PIPELINE, and may go on meanwhile.
    An audit only reads: it needs SELECT on the table, READ on the topics and, for --group, DESCRIBE
    on the group. It needs no ledger, joins no group and writes nothing.

    It reads the records again, and the file's decode and transform make rows of them. --ignore
    leaves out what no record tells, such as a load time. The coordinates of a record tell which row
    is its own; or the key of `mode: upsert`, of which the last record counts; or nothing: then
    whole rows are compared.

    The group's offsets say which records must be there, or --until; else the last row of each
    partition does. What Kafka no longer holds can't be told, and is called so.

    Exits with 1 and names the first rows that are lost, doubled, altered, stale or foreign.

      tidemark audit dags/orders.yaml --group connect-orders --ignore loaded_at
      tidemark audit dags/orders.yaml --until 2026-01-31T12:00:00Z --limit 1000 -o json
    """
    if group and until:
        raise OptionsClash(options=("--group", "--until"))
    question = AuditQuestion(
        group=group,
        until=_place("--until", until),
        since=_place("--since", since),
        ignored=tuple(ignore or ()),
        coordinates=_names(coordinates),
        limit=limit,
    )
    report = _audited(Pipeline.load(pipeline), question)
    if output is ResultFormat.json:
        print_json(plain(report) | {"clean": not report.wrong, "wrong": report.wrong})
    else:
        _print(report)
    if report.wrong:
        raise typer.Exit(1)


def _audited(pipeline: Pipeline, question: AuditQuestion) -> "AuditReport":
    prepare_spark(pipeline)
    with ExitStack() as started, moving("asking Kafka") as move:

        @cache
        def spark() -> "SparkSession":
            from tidemark.spark.session import session

            return started.enter_context(session(f"tidemark audit {pipeline.region}"))

        return compared(pipeline, connections_of(pipeline), question, spark=spark, tell=move)


def _place(option: str, text: str | None) -> datetime | Offsets | None:
    """A time; or the offsets of a file, as kafka-consumer-groups.sh takes them."""
    if text is None or not Path(text).is_file():
        return time_of(option, text)
    try:
        lines = [line.rsplit(",", 2) for line in Path(text).read_text().split()]
        return {TopicPartition(topic, int(number)): int(at) for topic, number, at in lines}
    except (OSError, ValueError):
        form = "a file of topic,partition,offset lines"
        raise OptionUnreadable(option=option, given=text, form=form) from None


def _names(text: str | None) -> tuple[str, str, str] | None:
    if text is None:
        return None
    names = text.split(",")
    if len(names) != 3 or not all(names):
        form = "three columns; write them like topic,partition,offset"
        raise OptionUnreadable(option="--coordinates", given=text, form=form)
    topic, partition, offset = names
    return topic, partition, offset


def _print(report: "AuditReport") -> None:
    print_table(
        ("topic", "partition", "from", "must be there up to", "may be there up to"),
        [(p.topic, p.partition, p.start, p.until, p.end) for p in report.partitions],
    )
    print_line("")
    for difference in report.differences:
        print_line(_text(difference), style="red")
    if report.ahead:
        print_line(
            f"note  {amount(report.ahead, 'row')} of records that need not be there yet: what goes"
            " on from those offsets adds them again",
            style="yellow",
        )
    for gone in report.unverifiable:
        print_line(f"not verifiable  {gone}", style="yellow")
    for note in report.notes:
        print_line(f"note  {note}")
    if report.dead_letters:
        told = ", ".join(f"{count} {reason}" for reason, count in report.dead_letters.items())
        print_line(f"note  records that are no rows by the pipeline file: {told}")
    print_line(_summary(report), style="red" if report.wrong else "green")


def _text(difference: "Difference") -> str:
    where = f" {difference.where}" if difference.where else ""
    return f"{difference.kind}  {difference.what}{where}: {difference.detail}"


def _summary(report: "AuditReport") -> str:
    wrong = ", ".join(f"{count:,} {kind}" for kind, count in report.by_kind.items() if count)
    return (
        f"table {report.table}, told by {report.told_by}: {amount(report.rows, 'row')} compared"
        f" with {amount(report.expected, 'row')} of Kafka; {wrong or 'nothing'} wrong"
    )
