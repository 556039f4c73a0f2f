"""From a pipeline and its connections to what readers and writers need."""

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from tidemark.decode import Decoding
from tidemark.decode.registry import registry_config
from tidemark.kafka.config import kafka_config
from tidemark.model.batch import Batch
from tidemark.postgres.parameters import postgres_parameters
from tidemark.settings.connections import Connection
from tidemark.settings.decode import DecodeSettings, Metadata
from tidemark.settings.fields import arrow_schema
from tidemark.settings.format import FormatSettings, OnNewField
from tidemark.settings.pipeline import Pipeline
from tidemark.spark._writer import WriteSpec
from tidemark.spark.reader import ReadSpec
from tidemark.spark.record_decoder import RecordDecoder
from tidemark.spark.records import row_schema

NOWHERE = "http://registry.invalid"
"""A name that nobody can have (RFC 2606)."""


def read_spec(
    pipeline: Pipeline, connections: Mapping[str, Connection], member: int = 0
) -> ReadSpec:
    """How the pipeline's records are read; nothing is recorded until a batch is named.

    Readers name the region's group id, which needs no further ACL, and never join it.

    Raises:
        InvalidSettings: a decoder of the user's own can't be made, see `decoder_of`.
    """
    decoding = decoding_of(pipeline.decode, connections)
    kafka = pipeline.executors.kafka or pipeline.kafka.connection
    warehouse = pipeline.executors.warehouse or pipeline.warehouse
    return ReadSpec(
        kafka=kafka_config(connections[kafka]) | {"group.id": pipeline.group},
        postgres=postgres_parameters(connections[warehouse]),
        decoding=decoding,
        fields=RecordDecoder(decoding).schema,
        metadata=tuple(map(str, pipeline.decode.metadata)),
        member=member,
        no_progress_seconds=pipeline.no_progress_seconds,
        max_unpacked=pipeline.kafka.max_unpacked_bytes,
        letter_bytes=pipeline.dead_letters.kept_bytes,
    )


def decoding_of(settings: DecodeSettings, connections: Mapping[str, Connection]) -> Decoding:
    """What the pipeline's decoder is made of.

    Raises:
        InvalidSettings: a registry's connection can't be used.
    """
    key = replace(_part(settings.key, connections), takes_null=True) if settings.key else None
    return replace(
        _part(settings, connections),
        takes_null=Metadata.tombstone in settings.metadata,
        envelope=settings.envelope and str(settings.envelope),
        placeholder=settings.placeholder,
        source=tuple(map(str, settings.source)),
        key=key,
    )


def columns_given(settings: DecodeSettings) -> pa.Schema:
    """The columns that a transform is given, where they are declared; no registry is asked.

    Raises:
        InvalidSettings: see `RecordDecoder`.
    """
    nowhere = {name: Connection(name, "http", NOWHERE) for name in settings.registries}
    fields = RecordDecoder(decoding_of(settings, nowhere)).schema
    return row_schema(fields, tuple(map(str, settings.metadata)))


def _part(settings: FormatSettings, connections: Mapping[str, Connection]) -> Decoding:
    registry = registry_config(connections[settings.registry]) if settings.registry else {}
    return Decoding(
        format=str(settings.format),  # plain texts: a task need not import the pipeline
        declared=arrow_schema(settings.declared) if settings.declared else pa.schema([]),
        framing=settings.framing and str(settings.framing),
        refuses_new=settings.on_new_field is OnNewField.refuse,
        registry=registry,
        descriptors=settings.descriptors,
        message=settings.message or "",
        options=settings.options,
    )


def specs_of_batch(
    spec: ReadSpec, batch: Batch, rows: Mapping[str, pa.Schema]
) -> tuple[ReadSpec, WriteSpec]:
    """How one batch is read and staged; `rows` are each target's columns after the transform."""
    reading = replace(
        spec,
        staging=batch.staging,
        read_up_to=batch.read_up_to,
        stored=batch.stored,
        spans=batch.size or len(batch.spans),
        set_aside=batch.set_aside,
    )
    return reading, WriteSpec(spec.postgres, batch.staging, rows, spec.member)
