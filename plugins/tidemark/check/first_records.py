"""The first records that Kafka holds, through decode and transform, as `tidemark preview` shows.

For `schema: infer` they become a schema to paste.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import yaml

from tidemark.check.errors import NoFieldInferred, NoSchemaInferred
from tidemark.decode.framing import KEY, VALUE, HeaderIds
from tidemark.decode.infer import inferred
from tidemark.decode.port import Decoding, Refusal
from tidemark.kafka.facts import Broker
from tidemark.model.batch import DeadLetter
from tidemark.model.offsets import Span
from tidemark.model.plain import amount, inert
from tidemark.model.plan import plan
from tidemark.runs.fit import with_columns_in_use
from tidemark.settings.decode import DecodeSettings
from tidemark.settings.endpoints import Connections, Endpoints
from tidemark.settings.pipeline import Pipeline
from tidemark.spark.reader import ReadSpec, read
from tidemark.spark.sample import transformed_sample
from tidemark.spark.session import session
from tidemark.spark.specs import decoding_of, read_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemark.decode.registry_columns import Fields


WIDER = 4
"""Each try reads this many times as many offsets, if the last one held too few records."""

_PLACE = ("kafka_topic", "kafka_partition", "kafka_offset")


@dataclass(frozen=True, slots=True)
class Preview:
    """The rows that the transform makes of the first records, and the dead letters among them."""

    rows: dict[str, pa.Table]
    """By target."""
    dead_letters: list[DeadLetter]
    decoded: int
    """Rows that the transform was given; with the dead letters these are the records read."""

    @property
    def records(self) -> int:
        """Records read."""
        return self.decoded + len(self.dead_letters)

    @property
    def text(self) -> str:
        """The counts in a sentence: what was read, and what became of it."""
        read = f"{amount(self.records, 'record')} read"
        dead_letters = amount(len(self.dead_letters), "dead letter")
        if len(self.rows) > 1:
            made = ", ".join(
                f"{amount(one.num_rows, 'row')} of {name}" for name, one in self.rows.items()
            )
            return f"{read}: {made}, {dead_letters}"
        (rows,) = (one.num_rows for one in self.rows.values())
        left = self.decoded - rows
        dropped = f", {left} dropped by the transform" if left > 0 else ""
        added = f", {-left} more than it was given, made by the transform" if left < 0 else ""
        return f"{read}: {amount(rows, 'row')}{added}{dropped}, {dead_letters}"


def preview_of(given: Pipeline, connections: Connections, limit: int) -> Preview:
    """What becomes of the first `limit` records; the transform must be importable."""
    pipeline = with_columns_in_use(given, connections)
    rows, dead_letters = _decoded(pipeline, connections, limit)
    return Preview(_transformed(pipeline, rows), dead_letters, rows.num_rows)


def raw_records(pipeline: Pipeline, connections: Connections, limit: int) -> list[dict[str, Any]]:
    """The first `limit` records as they are: value, key and headers."""
    bare = DecodeSettings.model_validate({"format": "raw", "metadata": ["key", "headers"]})
    rows, _ = _decoded(pipeline.model_copy(update={"decode": bare}), connections, limit)
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


def _decoded(
    pipeline: Pipeline, connections: Connections, limit: int
) -> tuple[pa.Table, list[DeadLetter]]:
    """The rows of the first `limit` records, and the dead letters among them."""
    spec = read_spec(pipeline, Endpoints.of(pipeline, connections))
    rows = pa.Table.from_batches([], spec.schema)
    dead_letters: list[DeadLetter] = []
    for spans in _wider_spans(pipeline, spec, limit):
        found, rejected = _first(*_read(spec, spans), limit - rows.num_rows - len(dead_letters))
        rows, dead_letters = pa.concat_tables([rows, found]), [*dead_letters, *rejected]
        if rows.num_rows + len(dead_letters) == limit:
            break
    return rows, dead_letters


def _wider_spans(pipeline: Pipeline, spec: ReadSpec, limit: int) -> Iterator[tuple[Span, ...]]:
    """Spans from the log's starts on, wider and wider: offsets without a record are many."""
    broker = Broker(spec.kafka)
    facts = broker.facts(broker.topics(pipeline.kafka.topics))
    offsets, width = dict(facts.log_starts), limit
    while spans := plan(offsets, facts.ends, width, 0):
        yield spans
        offsets |= {span.topic_partition: span.end for span in spans}
        width *= WIDER


def _read(spec: ReadSpec, spans: tuple[Span, ...]) -> tuple[pa.Table, list[DeadLetter]]:
    dead_letters: list[DeadLetter] = []
    batches = list(read(spec, spans, 0, dead_letters.extend))
    rows = pa.Table.from_batches(batches, spec.schema)
    return rows.sort_by([(name, "ascending") for name in _PLACE]), dead_letters


def _first(
    rows: pa.Table, dead_letters: list[DeadLetter], most: int
) -> tuple[pa.Table, list[DeadLetter]]:
    """What became of the first `most` records of a try, by topic, partition and offset."""
    good = zip(*(rows[name].to_pylist() for name in _PLACE), strict=True)
    bad = [(one.topic, one.partition, one.offset) for one in dead_letters]
    first = set(sorted([*good, *bad])[:most])
    kept = [one for one, place in zip(dead_letters, bad, strict=True) if place in first]
    return rows[: len(first) - len(kept)], kept


def _transformed(pipeline: Pipeline, rows: pa.Table) -> dict[str, pa.Table]:
    """The rows after the transform; Spark starts only if it is one of DataFrames, and stops."""
    with ExitStack() as started:

        def spark() -> "SparkSession":
            return started.enter_context(session(f"tidemark preview {pipeline.region}"))

        return transformed_sample(pipeline.named_transform, rows, spark)


@dataclass(frozen=True, slots=True)
class Inferred:
    """What to declare in the place of `infer`."""

    records: int
    """Records that were read."""
    fields: "dict[str, Fields]"
    """By section: decode, and decode.key if that is asked for."""

    @property
    def text(self) -> str:
        """As it may be pasted."""
        return "\n".join(
            line for name, fields in self.fields.items() for line in _yaml(name, fields)
        )


def inferred_of(pipeline: Pipeline, connections: Connections, limit: int) -> Inferred:
    """What the first `limit` records say of their fields.

    Raises:
        InvalidSettings: there are none, or the schema of the last one can't be had.
        Unreachable: the registry does not answer.
    """
    decoding = decoding_of(pipeline.decode, connections)
    records = raw_records(pipeline, connections, limit)
    found = {}
    if pipeline.decode.infers:
        found["decode"] = _fields(decoding, records, "value", VALUE)
    if decoding.key and pipeline.decode.key and pipeline.decode.key.infers:
        found["decode.key"] = _fields(decoding.key, records, "kafka_key", KEY)
    return Inferred(len(records), found)


def _fields(
    decoding: Decoding, records: Sequence[dict[str, Any]], part: str, header: str
) -> "Fields":
    ids = HeaderIds(header, has_path=decoding.format == "protobuf")
    values = [one[part] for one in records]
    if decoding.framing == "headers":
        headers = [[(h["key"], h["value"]) for h in one["kafka_headers"]] for one in records]
        values = [ids.framed(*both) for both in zip(values, headers, strict=True)]
    values = [value for value in values if value and isinstance(value, bytes)]
    try:
        found = inferred(decoding, values)
    except Refusal as refusal:
        raise NoSchemaInferred(cause=refusal.detail) from refusal
    if not any(found.values()):
        raise NoFieldInferred(values=len(values))
    return found


def _yaml(section: str, fields: "Fields") -> list[str]:
    keys = [*section.split("."), "schema"]
    lines = [f"{'  ' * depth}{key}:" for depth, key in enumerate(keys)]
    margin = "  " * len(keys)
    for name, text in fields.items():
        line = yaml.safe_dump({name: text} if text else name, allow_unicode=True, width=10**9)
        line = line.removesuffix("...\n").strip()
        lines.append(
            f"{margin}{line}" if text else f"{margin}# {inert(line)}: no type holds what it has"
        )
    return lines
