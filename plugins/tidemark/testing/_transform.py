"""What becomes of records: the pipeline's own decode and transform, in the process of the test."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, Message

from tidemark.model.batch import DeadLetter
from tidemark.runs.targets import writers_of
from tidemark.settings.connections import Connection
from tidemark.settings.pipeline import Pipeline
from tidemark.settings.registered import registered
from tidemark.spark.cluster import find_project
from tidemark.spark.record_decoder import RecordDecoder
from tidemark.spark.records import decode_block, row_schema
from tidemark.spark.sample import listed, transformed_sample
from tidemark.spark.specs import decoding_of, old_key_of
from tidemark.testing.errors import FieldsInRegistry, RegistryNotGiven, RowsOfSeveralTargets

Value = bytes | str | Mapping[str, Any] | None
"""Bytes as they are, a text in UTF-8, a mapping as a JSON object; None is a tombstone."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a topic; what a test does not say is usual."""

    value: Value
    key: Value = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int | None = 1_700_000_000_000
    """None: a record of before timestamps."""
    topic: str | None = None
    """None: the first topic that the pipeline reads."""
    partition: int = 0
    offset: int | None = None
    """None: its index among the records of the test."""

    def message(self, topic: str, index: int) -> Message:
        """The record as the Kafka client gives it."""
        is_timed = self.timestamp_ms is not None
        kind = TIMESTAMP_CREATE_TIME if is_timed else TIMESTAMP_NOT_AVAILABLE
        return Message(
            topic=self.topic or topic,
            partition=self.partition,
            offset=index if self.offset is None else self.offset,
            key=_bytes_of(self.key),
            value=_bytes_of(self.value),
            headers=list(self.headers),
            timestamp=(kind, self.timestamp_ms or 0),
        )


def record_of(given: Record | Value) -> Record:
    """The record that was given, or one of this value."""
    return given if isinstance(given, Record) else Record(given)


def _bytes_of(value: Value) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode()


Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Made:
    """What became of a test's records: rows, dead letters, or neither: the transform's choice."""

    by_target: Mapping[str, list[Row]]
    """The rows of each target, in the order that the transform gave them."""
    dead_letters: list[DeadLetter]
    """Those that decode refused, with reason and detail, in the order of the records."""

    @property
    def rows(self) -> list[Row]:
        """The rows of the only target.

        Raises:
            InvalidSettings: there are several.
        """
        if len(self.by_target) > 1:
            raise RowsOfSeveralTargets(targets=tuple(self.by_target))
        return next(iter(self.by_target.values()))

    @property
    def reasons(self) -> list[str]:
        """Why each dead letter is one."""
        return [one.reason for one in self.dead_letters]


def run_transform(
    pipeline: str | Path,
    records: Iterable[Record | Value],
    *,
    connections: Mapping[str, Connection] | None = None,
) -> Made:
    """Decode and transform the records as a run of the pipeline file would; nothing is written.

    A record is a `Record`, or its value alone: bytes, a text, a mapping (a JSON object), None. An
    Arrow transform, or none, needs no Spark. A transform of DataFrames starts a local one, which
    later calls use again. `connections` are needed by id for a schema registry alone.

    Raises:
        InvalidSettings: the file or the transform can't be used, a connection lacks, or its rows
            lack a column that the target's mode needs.
        TransformFailed: the transform raises.
        IncompleteRead: it cuts its rows.
        SchemaMismatch: its columns depend on the data, or Postgres can't hold one.
    """
    loaded = Pipeline.load(pipeline)
    refuse_registered(loaded)
    find_project(loaded.project)
    registries = _needed(loaded, connections or {})
    decoding = decoding_of(
        loaded.decode, registries, old_key_of(loaded), keeps_deleted=loaded.keeps_deleted
    )
    decoder = RecordDecoder(decoding)
    schema = row_schema(decoder.schema, tuple(map(str, loaded.decode.metadata)))
    topic = _first_topic(loaded)
    messages = [record_of(one).message(topic, index) for index, one in enumerate(records)]
    rows, dead_letters = decode_block(decoder, messages, schema)
    table = pa.Table.from_batches([rows], schema)
    made = transformed_sample(loaded.named_transform, table, spark_session)
    writers_of(loaded, {name: rows.schema for name, rows in made.items()}).refuse_unfit_rows()
    return Made({name: listed(table) for name, table in made.items()}, dead_letters)


def refuse_registered(pipeline: Pipeline) -> None:
    """Refuse a pipeline whose columns only a registry knows.

    Raises:
        InvalidSettings: names the sections.
    """
    if sections := registered(pipeline):
        raise FieldsInRegistry(region=pipeline.region, sections=tuple(sections))


def _needed(pipeline: Pipeline, given: Mapping[str, Connection]) -> Mapping[str, Connection]:
    parts = (pipeline.decode, pipeline.decode.key)
    wanted = {part.registry for part in parts if part and part.registry}
    for name in sorted(wanted - set(given)):
        raise RegistryNotGiven(connection=name)
    return given


def _first_topic(pipeline: Pipeline) -> str:
    topics = pipeline.kafka.topics
    return topics if isinstance(topics, str) else topics[0]


def spark_session() -> Any:
    """The session of this process."""
    from tidemark.spark.session import session

    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", "--master local[1] pyspark-shell")
    return session("tidemark tests")
