"""From a pipeline and its connections to what readers and writers need."""

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from tidemark.decode import RawDecoder
from tidemark.kafka.config import kafka_config
from tidemark.model.batch import Batch
from tidemark.postgres.parameters import postgres_parameters
from tidemark.settings.connections import Connection
from tidemark.settings.decode import Format
from tidemark.settings.fields import arrow_schema
from tidemark.settings.pipeline import Pipeline
from tidemark.spark.reader import ReadSpec
from tidemark.spark.writer import WriteSpec


def read_spec(
    pipeline: Pipeline, connections: Mapping[str, Connection], member: int = 0
) -> ReadSpec:
    """How the pipeline's records are read; nothing is recorded until a batch is named.

    Readers name the region's group id, which needs no further ACL, and never join it.
    """
    decode = pipeline.decode
    raw = decode.format is Format.raw
    return ReadSpec(
        kafka=kafka_config(connections[pipeline.kafka.connection]) | {"group.id": pipeline.group},
        postgres=postgres_parameters(connections[pipeline.target.connection]),
        format=str(decode.format),  # plain texts: a task need not import the pipeline
        fields=RawDecoder.schema if raw else arrow_schema(decode.fields),
        metadata=tuple(map(str, decode.metadata)),
        member=member,
        no_progress_seconds=pipeline.no_progress_seconds,
    )


def specs_of_batch(spec: ReadSpec, batch: Batch, rows: pa.Schema) -> tuple[ReadSpec, WriteSpec]:
    """How one batch is read and staged; `rows` are the columns after the transform."""
    reading = replace(spec, staging=batch.staging, read_up_to=batch.read_up_to)
    return reading, WriteSpec(spec.postgres, batch.staging, rows, spec.member)
