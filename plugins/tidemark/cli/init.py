"""`tidemark init`: a pipeline of one's own, from the records that a topic holds.

It says what it saw, what it wrote and how to go on. Files are written all or none.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from tidemark.admin.importing import offsets_of_group
from tidemark.check.first_records import WHOLE_ROWS, Preview, SourceKey, preview_of, raw_records
from tidemark.cli.faults import (
    DraftRefused,
    FileNotWritten,
    FilesExist,
    NothingProposed,
    RegionHasFile,
    TableHasFile,
    TopicToReadMissing,
    TransformKindUnknown,
)
from tidemark.cli.new_pipeline import TESTING, NewPipeline, mode, table_columns, upserting
from tidemark.cli.output import (
    Format,
    ResultFormat,
    Verbose,
    print_json,
    print_line,
    print_table,
    spinning,
)
from tidemark.cli.project import connection, connections_of, pipelines_in, prepare_spark
from tidemark.cli.proposal import Proposal, proposal
from tidemark.decode.infer import NOTHING
from tidemark.decode.port import Reason
from tidemark.errors import InvalidSettings
from tidemark.kafka.errors import KafkaTopicMissing
from tidemark.model.plain import amount, inert
from tidemark.model.upsert import Upsert
from tidemark.settings.decode import DELETED_FIELD
from tidemark.settings.fault_texts import fault_text
from tidemark.settings.pipeline import MATCHES, Pipeline
from tidemark.settings.sections import TransformKind
from tidemark.staging.column import MOST_ROW_BYTES, too_wide

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
        Path, typer.Option("--dir", help="The project's folder; made if missing.")
    ] = Path(),
    transform: Annotated[
        str | None,
        typer.Option(metavar="arrow|dataframe", help="Write a transform of this kind, to fill in."),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Take each value as bytes, whatever it holds.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Records to read.")] = 200,
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
    from_group: Annotated[
        str | None,
        typer.Option(
            metavar="GROUP", help="Begin where the consumer group of another tool stands."
        ),
    ] = None,
    output: Format = ResultFormat.table,
    verbose: Verbose = False,
) -> None:
    """Write a pipeline of your own, from the first records of a topic.

    It writes the pipeline file and its DAGs (dags/), the table's statement (sql/), a test (tests/)
    and, with --transform, a transform (jobs/). If one of them exists, it writes none. It prints the
    number of records, the fields, types and nulls, and what it could not decide. Types are
    proposals: check them before the first run.

    Without --upsert each record adds a row. With --upsert the table holds the last row of each key:
    give the columns of the key. If the topic holds change events of Debezium, a deletion deletes
    the row, and a written transform drops the tombstone that follows.

    With --from-group the pipeline takes over from another tool: it begins at its group's offsets,
    and --table names the table that the tool has filled. It prints the commands that compare the
    table with the topic and hand the offsets over (docs/moving-in.md).

      tidemark init clicks --topic clicks
      tidemark init clicks --topic clicks --dir my-project --transform arrow
      tidemark init payments --topic payments --registry tidemark_registry
      tidemark init orders --topic shop.public.orders --upsert order_id
      tidemark init orders --topic orders --table public.orders --from-group connect-orders
    """
    start = "committed" if from_group else "beginning"
    draft = {
        "region": name,
        "kafka": {
            "connection": kafka,
            "topics": [topic],
            "start": start,
        },
        "target": {"connection": warehouse, "table": table or f"public.{name}", **mode(upsert)},
    }
    new = _new(directory, draft, transform)
    refuse_existing(new.paths)
    with spinning("reading") as tell:
        if from_group:
            drafted = _drafted(draft, {"format": "raw"})
            offsets_of_group(drafted, connections_of(drafted), from_group)
        proposed, source = _proposed(new, limit, registry, as_bytes=raw)
        new, found = upserting(new, proposed)
        refuse_existing(new.paths)
        tell("decoding")
        tried = _tried(new, found, limit)
    texts = new.texts(found)
    write_all(texts)
    done = Initiated(new=new, proposal=found, tried=tried, files=list(texts), source=source,
                     group=from_group)  # fmt: skip
    show(done, output)


def _new(directory: Path, draft: Mapping[str, Any], transform: str | None) -> NewPipeline:
    """What is to be written; names are right, and no other pipeline has them."""
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


def _drafted(draft: Mapping[str, Any], decode: Mapping[str, Any]) -> Pipeline:
    try:
        return Pipeline.model_validate({**draft, "decode": decode})
    except ValidationError as error:
        faults = {
            _OPTIONS.get(".".join(map(str, one["loc"][:2])), "decode"): fault_text(
                dict(one), MATCHES
            )
            for one in error.errors()
        }
        raise DraftRefused(faults=faults) from error


def _proposed(
    new: NewPipeline, limit: int, registry: str | None, *, as_bytes: bool
) -> tuple[Proposal, SourceKey]:
    known = connection(registry) if registry else None
    topics = tuple(new.draft["kafka"]["topics"])
    try:
        drafted = _drafted(new.draft, {"format": "raw"})
        records = raw_records(drafted, connections_of(drafted), limit)
    except KafkaTopicMissing as error:
        raise TopicToReadMissing(topic=topics[0]) from error
    try:
        return proposal(records, known, as_bytes=as_bytes), SourceKey.of(records)
    except InvalidSettings as error:
        raise NothingProposed(topics=topics, cause=str(error)) from error


def _tried(new: NewPipeline, found: Proposal, limit: int) -> Preview:
    """What becomes of the first records, decoded as proposed."""
    drafted = _drafted(new.draft, found.section)
    prepare_spark(drafted)
    return preview_of(drafted, connections_of(drafted), limit)


LEFT_OUT = (
    "Left out: a field that a column must hold all the same needs a decoder of your own"
    " (docs/formats-own.md), or --raw and a transform"
)


SEVERAL = (
    "Several types: the fields of each are proposed. Leave those of one, and records of the others"
    " are dead letters (docs/dead-letters.md)"
)


@dataclass(frozen=True, slots=True)
class Initiated:
    """A pipeline that was written."""

    new: NewPipeline
    proposal: Proposal
    tried: Preview
    """What becomes of the first records, decoded as proposed."""
    files: Sequence[Path]
    source: SourceKey
    """Of change events: whether they tell what an upsert needs."""
    group: str | None = None
    """Of the tool that it takes over from."""

    @property
    def reasons(self) -> dict[str, int]:
        """How many dead letters there are, by reason."""
        return dict(Counter(one.reason for one in self.tried.dead_letters))

    @property
    def next(self) -> list[str]:
        """The commands that go on from here."""
        file, test = (quote(os.fspath(path)) for path in (self.new.file, self.new.test))
        verbs = ["check {}", "preview {}", "run {}", "verify {}"]
        if self.group:
            group = quote(self.group)
            verbs[2:2] = [f"audit {{}} --group {group}",
                          f"import-offsets {{}} --from-group {group} --apply"]  # fmt: skip
        return [f"python -m pytest {test}", *(f"tidemark {verb.format(file)}" for verb in verbs)]


def show(done: Initiated, output: ResultFormat) -> None:
    """Print it."""
    if output is ResultFormat.json:
        print_json(_answer(done))
        return
    _print_seen(done)
    print_line("Written:", style="bold")
    for path in done.files:
        print_line(f"  {path}")
    print_line("Look at the types, then:", style="bold")
    for command in done.next:
        print_line(f"  {command}")
    if not all(map(find_spec, ("pytest", "tidemark_local"))):
        print_line(f"The test needs pytest and, for the table, {TESTING}")


def _answer(done: Initiated) -> dict[str, Any]:
    return {
        "region": done.new.region,
        "records": done.proposal.records,
        "looks_like": {str(kind): count for kind, count in done.proposal.looks.items()},
        "record_types": done.proposal.types.types,
        "wrappers": done.proposal.types.wrappers,
        "decode": done.proposal.decode,
        "fields": done.proposal.fields,
        "upsert": done.new.upsert,
        "rows": done.tried.decoded,
        "dead_letters": done.reasons,
        "files": [str(path) for path in done.files],
        "next": done.next,
    }


def _print_seen(done: Initiated) -> None:
    found = done.proposal
    looks = ", ".join(f"{count} {kind}" for kind, count in found.looks.items())
    print_line(f"{amount(found.records, 'record')} looked at: {looks}")
    if found.types.types:
        print_line(inert(found.types))
    if len(found.types.types) > 1:
        print_line(SEVERAL)
    if found.fields:
        rows = [(one.name, one.type or "–", one.nulls, one.why) for one in found.fields]
        print_table(("field", "type", "null or missing", "left out, because"), rows)
    if any(one.type is None and one.why != NOTHING for one in found.fields):
        print_line(LEFT_OUT)
    reasons = ", ".join(f"{count} {reason}" for reason, count in done.reasons.items())
    dead_letters = (
        f"{amount(len(done.tried.dead_letters), 'dead letter')} ({reasons})" if reasons else ""
    )
    decoded = amount(done.tried.decoded, "row")
    print_line(f"Decoded so: {decoded}, {inert(dead_letters or 'no dead letter')}")
    _print_of_rows(done)
    if Reason.NULL_VALUE in done.reasons:
        _print_of_nulls(done)
    if upsert := done.new.upsert:
        _print_upsert(done, upsert)


def _print_of_rows(done: Initiated) -> None:
    """What rows of these fields will be, which the fields do not show."""
    if size := too_wide(table_columns(done.proposal, done.new.upsert)):
        print_line(
            f"A row in which no field is null has {size} bytes, and Postgres has room for"
            f" {MOST_ROW_BYTES}: it will be refused (docs/dead-letters.md)"
        )
    if done.proposal.tells_deletions and not done.new.upsert:
        print_line(
            f"{DELETED_FIELD}: each deletion is a row that says so; --upsert deletes instead"
        )


def _print_of_nulls(done: Initiated) -> None:
    if "envelope" in done.proposal.decode:
        print_line("NULL_VALUE: tombstones of Debezium; what to do: docs/formats-debezium.md")
    elif done.new.upsert:
        print_line("NULL_VALUE: tombstones, which delete no row so; what to do: docs/upserts.md")


def _print_upsert(done: Initiated, upsert: Upsert) -> None:
    key = inert(", ".join(upsert.key))
    print_line(f"Upserted by {key}: of each key the table holds the last row (docs/upserts.md)")
    if done.new.drops_tombstones:
        print_line(f"A deletion deletes the row; {done.new.job} drops the tombstone behind it")
        if done.source.is_other(upsert.key):
            print_line(inert(f"{done.source.text(upsert.key)}: {WHOLE_ROWS}"))
    for one in done.proposal.fields:
        if one.name == DELETED_FIELD and upsert.deleted is None:
            print_line(f"{DELETED_FIELD}: neither boolean nor its text, so it deletes no row")
        if one.name in upsert.key and one.nulls:
            seen = amount(one.nulls, "record")
            print_line(f"{inert(one.name)}: null or missing in {seen}, which ends a run")


Files = Mapping[Path, str]
"""Texts by path."""


def refuse_existing(paths: Iterable[Path]) -> None:
    """Refuse to write where something is.

    Raises:
        InvalidSettings: names it, and how to go on.
    """
    if taken := tuple(path for path in paths if os.path.lexists(path)):
        raise FilesExist(files=taken)


def write_all(files: Files) -> None:
    """Each file is there with its text; or none is, and no folder that was not there before.

    Raises:
        InvalidSettings: a path is taken, or can't be written.
    """
    made: list[Path] = []
    try:
        for path, text in files.items():
            made += _made_folders(path.parent)
            with path.open("x", encoding="utf-8") as file:
                made.append(path)
                file.write(text)
    except BaseException as error:
        _remove(made)
        if isinstance(error, OSError):
            raise FileNotWritten(file=str(error.filename), cause=str(error.strerror)) from error
        raise


def _made_folders(folder: Path) -> list[Path]:
    """The folder exists; those that were made for it, the outermost first."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing[::-1]


def _remove(made: Iterable[Path]) -> None:
    for path in [*made][::-1]:
        with suppress(OSError):  # a folder that somebody else has put something into
            path.rmdir() if path.is_dir() else path.unlink()
