"""The first records that Kafka holds, through decode and transform, as `tidemark preview` shows.

For `schema: infer` they become a schema to paste.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import yaml

from tidemark.check.errors import NoSchemaInferred
from tidemark.decode.framing import KEY, VALUE, HeaderIds, decoded
from tidemark.decode.infer import inferred
from tidemark.decode.port import Decoding, Refusal
from tidemark.decode.record_types import RecordTypes, record_types
from tidemark.kafka.facts import Broker
from tidemark.model.batch import DeadLetter
from tidemark.model.offsets import Span
from tidemark.model.plain import amount, inert
from tidemark.model.plan import plan
from tidemark.runs.fit import with_columns_in_use
from tidemark.runs.targets import writers_of
from tidemark.settings.decode import KEY_PREFIX, DecodeSettings
from tidemark.settings.endpoints import Connections, Endpoints
from tidemark.settings.pipeline import Pipeline
from tidemark.spark.reader import ReadSpec, read
from tidemark.spark.record_decoder import decoder_of
from tidemark.spark.record_keys import document
from tidemark.spark.records import count_records
from tidemark.spark.sample import transformed_sample
from tidemark.spark.session import session
from tidemark.spark.specs import decoding_of, read_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemark.decode.registry_columns import Fields


WIDER = 4
"""Each try reads this many times as many offsets, if the last one held too few records."""

Value = bytes | Refusal | None

_PLACE = ("kafka_topic", "kafka_partition", "kafka_offset")


@dataclass(frozen=True, slots=True)
class Preview:
    """The rows that the transform makes of the first records, and the dead letters among them."""

    rows: dict[str, pa.Table]
    dead_letters: list[DeadLetter]
    decoded: int
    """Rows that the transform was given."""
    records: int

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
    made = _transformed(pipeline, rows)
    writers_of(pipeline, {name: one.schema for name, one in made.items()}).refuse_unfit_rows()
    records = _count_records(rows) + len(dead_letters)
    return Preview(made, dead_letters, rows.num_rows, records)


def raw_records(pipeline: Pipeline, connections: Connections, limit: int) -> list[dict[str, Any]]:
    """The first `limit` records as they are: value, key and headers."""
    bare = DecodeSettings.model_validate({"format": "raw", "metadata": ["key", "headers"]})
    rows, _ = _decoded(pipeline.model_copy(update={"decode": bare}), connections, limit)
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


@dataclass(frozen=True, slots=True)
class Sample:
    """What the first records are, and why some are dead letters."""

    records: int
    types: RecordTypes
    reasons: Mapping[str, int]
    """Dead letters by reason; keys are not looked at."""

    @property
    def text(self) -> str:
        """The counts in words."""
        told = "; ".join(f"{count} {reason}" for reason, count in self.reasons.items())
        types = f": {self.types}" if self.types.types else ""
        return f"{amount(self.records, 'record')} looked at{types}" + (
            f". Dead letters: {told}" if told else ""
        )


def sample_of(given: Pipeline, connections: Connections, limit: int) -> Sample:
    """What the first `limit` records are; a decoder of the user's own is not asked."""
    records = raw_records(given, connections, limit)
    if given.decode.is_own:
        return Sample(len(records), RecordTypes(), {})
    pipeline = with_columns_in_use(given, connections)
    decoding = decoding_of(pipeline.decode, connections, keeps_deleted=pipeline.keeps_deleted)
    values = _values(decoding, records, "value", VALUE)
    rejected = decoded(decoder_of(decoding), values).rejected
    reasons = Counter(str(one.reason) for one in rejected).most_common()
    return Sample(len(records), _types(decoding, values), dict(reasons))


def types_of(pipeline: Pipeline, connections: Connections, limit: int) -> RecordTypes:
    """Of which types the first `limit` records are."""
    decoding = decoding_of(pipeline.decode, connections)
    records = raw_records(pipeline, connections, limit)
    return _types(decoding, _values(decoding, records, "value", VALUE))


def _types(decoding: Decoding, values: Sequence[Value]) -> RecordTypes:
    return record_types(decoding, [one for one in values if isinstance(one, bytes)])


def _decoded(
    pipeline: Pipeline, connections: Connections, limit: int
) -> tuple[pa.Table, list[DeadLetter]]:
    """The rows of the first `limit` records, and the dead letters among them."""
    spec = read_spec(pipeline, Endpoints.of(pipeline, connections))
    rows = pa.Table.from_batches([], spec.schema)
    dead_letters: list[DeadLetter] = []
    for spans in _wider_spans(pipeline, spec, limit):
        left = limit - _count_records(rows) - len(dead_letters)
        found, rejected = _first(*_read(spec, spans), left)
        rows, dead_letters = pa.concat_tables([rows, found]), [*dead_letters, *rejected]
        if _count_records(rows) + len(dead_letters) == limit:
            break
    return rows, dead_letters


def _count_records(rows: pa.Table) -> int:
    return sum(map(count_records, rows.combine_chunks().to_batches()))


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
    good = list(zip(*(rows[name].to_pylist() for name in _PLACE), strict=True))
    bad = [(one.topic, one.partition, one.offset) for one in dead_letters]
    first = set(sorted({*good, *bad})[:most])
    kept = [one for one, place in zip(dead_letters, bad, strict=True) if place in first]
    return rows[: sum(place in first for place in good)], kept


def _transformed(pipeline: Pipeline, rows: pa.Table) -> dict[str, pa.Table]:
    """The rows after the transform; Spark starts only if it is one of DataFrames, and stops."""
    with ExitStack() as started:

        def spark() -> "SparkSession":
            return started.enter_context(session(f"tidemark preview {pipeline.region}"))

        return transformed_sample(pipeline.named_transform, rows, spark)


@dataclass(frozen=True, slots=True)
class SourceKey:
    """What change events say of their source's key, and of rows before updates."""

    names: frozenset[str]
    """The fields of the records' keys; none, where they are no JSON objects."""
    updates: int
    with_before: int
    """Updates that tell the row before."""

    @classmethod
    def of(cls, records: Sequence[dict[str, Any]]) -> "SourceKey":
        """As `raw_records` gives them."""
        events = [(document(one["kafka_key"]), document(one["value"])) for one in records]
        events = [(key, value) for key, value in events if "op" in value]
        before = [value.get("before") for _, value in events if value["op"] == "u"]
        names = frozenset(name for key, _ in events for name in key)
        return cls(names, len(before), sum(map(bool, before)))

    def is_other(self, key: Sequence[str]) -> bool:
        """Whether rows are told apart by others than the source's own key."""
        return bool(self.names) and self.names != {name.removeprefix(KEY_PREFIX) for name in key}

    def text(self, key: Sequence[str]) -> str:
        """Of a key that is not the source's own: what happens to rows whose key changes."""
        own, given = (", ".join(names) for names in (sorted(self.names), key))
        told = f"{self.with_before} of {amount(self.updates, 'update')} among the first records"
        return (
            f"key ({given}) is not that of the source's rows ({own}); {told} tell the row before."
            f" An update without it that changes {given} leaves the old row in the table, and a"
            " deletion that does not tell the key finds no row"
        )


WHOLE_ROWS = (
    "give the source's table REPLICA IDENTITY FULL (MySQL: binlog_row_image=FULL), or upsert by the"
    " source's own key; see docs/upserts.md"
)


@dataclass(frozen=True, slots=True)
class Inferred:
    """What to declare in the place of `infer`."""

    records: int
    fields: "dict[str, Fields]"
    """By section: decode, and decode.key if that is asked for."""
    types: RecordTypes = field(default_factory=RecordTypes)

    @property
    def text(self) -> str:
        """As it may be pasted."""
        lines = [line for name, fields in self.fields.items() for line in _yaml(name, fields)]
        return "\n".join([*lines, f"# {inert(self.types)}"] if self.types.types else lines)


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
    return Inferred(
        len(records), found, _types(decoding, _values(decoding, records, "value", VALUE))
    )


def _fields(
    decoding: Decoding, records: Sequence[dict[str, Any]], part: str, header: str
) -> "Fields":
    framed = _values(decoding, records, part, header)
    values = [value for value in framed if value and isinstance(value, bytes)]
    try:
        found = inferred(decoding, values)
    except Refusal as refusal:
        raise NoSchemaInferred(cause=refusal.detail) from refusal
    if not any(found.values()):
        hold = f"the first {len(values)} values hold no field"
        raise NoSchemaInferred(cause=hold if values else "no record with a value was read")
    return found


def _values(
    decoding: Decoding, records: Sequence[dict[str, Any]], part: str, header: str
) -> list[Value]:
    """A part of each record, behind the id that a header holds."""
    if decoding.framing != "headers":
        return [one[part] for one in records]
    ids = HeaderIds(header, has_path=decoding.format == "protobuf")
    headers = [[(h["key"], h["value"]) for h in one["kafka_headers"]] for one in records]
    return [ids.framed(one[part], found) for one, found in zip(records, headers, strict=True)]


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
