"""The first records that Kafka holds, through decode and transform, as `tidemark preview` shows."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidemark.cli.project import connections_of, prepare_spark
from tidemark.model.amount import amount

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from tidemark.model.batch import DeadLetter
    from tidemark.model.offsets import Span
    from tidemark.settings.pipeline import Pipeline
    from tidemark.spark.reader import ReadSpec

WIDER = 4
"""Each try reads this many times as many offsets, if the last one held too few records."""

_PLACE = ("kafka_topic", "kafka_partition", "kafka_offset")


@dataclass(frozen=True, slots=True)
class Preview:
    """The rows that the transform makes of the first records, and the dead letters among them."""

    rows: "dict[str, pa.Table]"
    """By target."""
    dead_letters: "list[DeadLetter]"
    decoded: int
    """Rows that the transform was given; with the dead letters these are the records read."""

    @property
    def records(self) -> int:
        """Records read."""
        return self.decoded + len(self.dead_letters)

    @property
    def told(self) -> str:
        """The counts in a sentence: what was read, and what became of it."""
        read = f"{amount(self.records, 'record')} read"
        letters = amount(len(self.dead_letters), "dead letter")
        if len(self.rows) > 1:
            made = ", ".join(
                f"{amount(one.num_rows, 'row')} of {name}" for name, one in self.rows.items()
            )
            return f"{read}: {made}, {letters}"
        (rows,) = (one.num_rows for one in self.rows.values())
        left = self.decoded - rows
        dropped = f", {left} dropped by the transform" if left > 0 else ""
        added = f", {-left} more than it was given, made by the transform" if left < 0 else ""
        return f"{read}: {amount(rows, 'row')}{added}{dropped}, {letters}"


def preview_of(given: "Pipeline", limit: int) -> Preview:
    """What becomes of the first `limit` records."""
    from tidemark.operations.fit import with_columns_in_use

    prepare_spark(given)
    pipeline = with_columns_in_use(given, connections_of(given))
    rows, letters = _decoded(pipeline, limit)
    return Preview(_transformed(pipeline, rows), letters, rows.num_rows)


def raw_records(pipeline: "Pipeline", limit: int) -> "list[dict[str, Any]]":
    """The first `limit` records as they are: value, key and headers."""
    from tidemark.settings.decode import DecodeSettings

    bare = DecodeSettings.model_validate({"format": "raw", "metadata": ["key", "headers"]})
    rows, _ = _decoded(pipeline.model_copy(update={"decode": bare}), limit)
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


def _decoded(pipeline: "Pipeline", limit: int) -> "tuple[pa.Table, list[DeadLetter]]":
    """The rows of the first `limit` records, and the dead letters among them."""
    import pyarrow as pa

    from tidemark.spark.specs import read_spec

    spec = read_spec(pipeline, connections_of(pipeline))
    rows = pa.Table.from_batches([], spec.schema)
    letters: list[DeadLetter] = []
    for spans in _wider_spans(pipeline, spec, limit):
        found, rejected = _first(*_read(spec, spans), limit - rows.num_rows - len(letters))
        rows, letters = pa.concat_tables([rows, found]), [*letters, *rejected]
        if rows.num_rows + len(letters) == limit:
            break
    return rows, letters


def _wider_spans(
    pipeline: "Pipeline", spec: "ReadSpec", limit: int
) -> "Iterator[tuple[Span, ...]]":
    """Spans from the log's starts on, wider and wider: offsets without a record are many."""
    from tidemark.kafka.facts import Broker
    from tidemark.model.plan import plan

    broker = Broker(spec.kafka)
    facts = broker.facts(broker.topics(pipeline.kafka.topics))
    offsets, width = dict(facts.log_starts), limit
    while spans := plan(offsets, facts.ends, width, 0):
        yield spans
        offsets |= {span.topic_partition: span.end for span in spans}
        width *= WIDER


def _read(spec: "ReadSpec", spans: "tuple[Span, ...]") -> "tuple[pa.Table, list[DeadLetter]]":
    import pyarrow as pa

    from tidemark.spark.reader import read

    letters: list[DeadLetter] = []
    batches = list(read(spec, spans, 0, letters.extend))
    rows = pa.Table.from_batches(batches, spec.schema)
    return rows.sort_by([(name, "ascending") for name in _PLACE]), letters


def _first(
    rows: "pa.Table", letters: "list[DeadLetter]", most: int
) -> "tuple[pa.Table, list[DeadLetter]]":
    """What became of the first `most` records of a try, by topic, partition and offset."""
    good = zip(*(rows[name].to_pylist() for name in _PLACE), strict=True)
    bad = [(letter.topic, letter.partition, letter.offset) for letter in letters]
    first = set(sorted([*good, *bad])[:most])
    kept = [letter for letter, place in zip(letters, bad, strict=True) if place in first]
    return rows[: len(first) - len(kept)], kept


def _transformed(pipeline: "Pipeline", rows: "pa.Table") -> "dict[str, pa.Table]":
    """The rows after the transform; Spark starts only if it is one of DataFrames, and stops."""
    from tidemark.spark.sample import transformed_sample
    from tidemark.spark.session import session

    with ExitStack() as started:

        def spark() -> "SparkSession":
            return started.enter_context(session(f"tidemark preview {pipeline.region}"))

        return transformed_sample(pipeline, rows, spark)
