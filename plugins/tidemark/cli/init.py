"""`tidemark init`: a pipeline of one's own, from the records that a topic holds."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemark.cli.faults import (
    DraftRefused,
    NothingProposed,
    RegionHasFile,
    TableHasFile,
    TopicToReadMissing,
    TransformKindUnknown,
)
from tidemark.cli.output import Format, Output, Verbose
from tidemark.cli.progress import spinning
from tidemark.errors import InvalidSettings

if TYPE_CHECKING:
    from tidemark.cli.first_records import Preview
    from tidemark.cli.new_pipeline import NewPipeline
    from tidemark.cli.proposal import Proposal
    from tidemark.settings.pipeline import Pipeline

_OPTIONS = {"region": "NAME", "kafka.topics": "--topic", "kafka.connection": "--kafka",
            "target.table": "--table", "target.connection": "--warehouse",
            "target": "--upsert", "target.key": "--upsert"}  # fmt: skip
"""What says the keys of the pipeline file."""


def init(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The pipeline: its region, its files, its table.")
    ],
    topic: Annotated[str, typer.Option(help="The topic to read.")],
    directory: Annotated[
        Path, typer.Option("--dir", help="The project's folder; it may be empty, or not there yet.")
    ] = Path(),
    transform: Annotated[
        str | None,
        typer.Option(metavar="arrow|dataframe", help="Write a transform to fill in, of this kind."),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Take each value as bytes, whatever it holds.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Records to look at.")] = 200,
    table: Annotated[str | None, typer.Option(help="The target; public.NAME if left out.")] = None,
    kafka: Annotated[str, typer.Option(help="The connection of Kafka.")] = "tidemark_kafka",
    warehouse: Annotated[
        str, typer.Option(help="The connection of Postgres.")
    ] = "tidemark_warehouse",
    registry: Annotated[
        str | None, typer.Option(help="The connection of the schema registry, for Avro, Protobuf.")
    ] = None,
    upsert: Annotated[
        str | None,
        typer.Option(metavar="KEY[,KEY]", help="Keep one row of each key, by these columns."),
    ] = None,
    output: Format = Output.table,
    verbose: Verbose = False,
) -> None:
    """Write a pipeline of your own: look at a topic's first records, and propose what reads them.

    Written are the pipeline file and its DAGs (dags/), the table's statement (sql/), a test
    (tests/) and, if asked for, a transform (jobs/): all of them, or nothing where one of them is
    there. It says what it saw: how many records, fields, types, nulls, and what it could not
    decide. Types are proposals: look at them before the first run.

    Without --upsert each record adds a row. With it the table holds of each key its last row: write
    the columns that tell rows apart. Where the topic holds change events of Debezium, a deletion
    deletes the row, and the tombstone behind it is dropped by a transform that is written, too.

      tidemark init clicks --topic clicks
      tidemark init clicks --topic clicks --dir my-project --transform arrow
      tidemark init payments --topic payments --registry tidemark_registry
      tidemark init orders --topic shop.public.orders --upsert order_id
    """
    from tidemark.cli.new_files import refuse_taken, write_all
    from tidemark.cli.new_pipeline import mode, upserting
    from tidemark.cli.shown_init import Initiated, show

    draft = {
        "region": name,
        "kafka": {"connection": kafka, "topics": [topic], "start": "beginning"},
        "target": {"connection": warehouse, "table": table or f"public.{name}", **mode(upsert)},
    }
    new = _new(directory, draft, transform)
    refuse_taken(new.paths)
    with spinning("reading") as tell:
        new, found = upserting(new, _proposed(new, limit, registry, as_bytes=raw))
        refuse_taken(new.paths)
        tell("decoding")
        tried = _tried(new, found, limit)
    texts = new.texts(found)
    write_all(texts)
    show(Initiated(new, found, tried, list(texts)), output)


def _new(directory: Path, draft: Mapping[str, Any], transform: str | None) -> "NewPipeline":
    """What is to be written; names are right, and no other pipeline has them.

    Raises:
        InvalidSettings: a name can't be one, or is taken.
    """
    from tidemark.cli.new_pipeline import NewPipeline
    from tidemark.cli.project import pipelines_in
    from tidemark.settings.transform import TransformKind

    if transform is not None and transform not in tuple(TransformKind):
        raise TransformKindUnknown(given=transform, known=tuple(TransformKind))
    pipeline = _drafted(draft, {"format": "raw"})
    new = NewPipeline(directory, draft, TransformKind(transform) if transform else None)
    for other in pipelines_in(directory / "dags", []):
        if other.region == pipeline.region:
            raise RegionHasFile(file=other.path, region=other.region)
        if set(other.tables.values()) & set(pipeline.tables.values()):
            raise TableHasFile(file=other.path, tables=pipeline.into)
    return new


def _drafted(draft: Mapping[str, Any], decode: Mapping[str, Any]) -> "Pipeline":
    from pydantic import ValidationError

    from tidemark.settings.fault_words import words
    from tidemark.settings.pipeline import MATCHES, Pipeline

    try:
        return Pipeline.model_validate({**draft, "decode": decode})
    except ValidationError as error:
        faults = {
            _OPTIONS.get(".".join(map(str, one["loc"][:2])), "decode"): words(dict(one), MATCHES)
            for one in error.errors()
        }
        raise DraftRefused(faults=faults) from error


def _proposed(
    new: "NewPipeline", limit: int, registry: str | None, *, as_bytes: bool
) -> "Proposal":
    from tidemark.cli.first_records import raw_records
    from tidemark.cli.project import connection
    from tidemark.cli.proposal import proposal
    from tidemark.kafka.errors import KafkaTopicMissing

    known = connection(registry) if registry else None
    topics = tuple(new.draft["kafka"]["topics"])
    try:
        records = raw_records(_drafted(new.draft, {"format": "raw"}), limit)
    except KafkaTopicMissing as error:
        raise TopicToReadMissing(topic=topics[0]) from error
    try:
        return proposal(records, known, as_bytes=as_bytes)
    except InvalidSettings as error:
        raise NothingProposed(topics=topics, cause=str(error)) from error


def _tried(new: "NewPipeline", found: "Proposal", limit: int) -> "Preview":
    """What becomes of the first records, decoded as proposed."""
    from tidemark.cli.first_records import preview_of

    return preview_of(_drafted(new.draft, found.section), limit)
