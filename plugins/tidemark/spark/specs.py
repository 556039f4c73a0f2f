"""From a pipeline and its connections to what an executor needs, its readers and its writers."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from tidemark.decode import Decoding
from tidemark.decode.port import OldKey
from tidemark.decode.registry import registry_config
from tidemark.kafka.config import kafka_config
from tidemark.model.batch import Batch
from tidemark.postgres.parameters import postgres_parameters
from tidemark.settings.connections import Connection
from tidemark.settings.decode import DecodeSettings, KeySettings, Metadata
from tidemark.settings.endpoints import Connections, Endpoints
from tidemark.settings.fields import arrow_schema
from tidemark.settings.format import FormatSettings, OnNewField, OnNoField
from tidemark.settings.pipeline import Pipeline
from tidemark.settings.sections import NamedTransform
from tidemark.settings.target import OnRefused
from tidemark.spark._writer import WriteSpec
from tidemark.spark.reader import ReadSpec
from tidemark.spark.record_decoder import RecordDecoder
from tidemark.spark.records import row_schema

NOWHERE = "http://registry.invalid"
"""A name that nobody can have (RFC 2606)."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What the jobs of a member's batches are made of."""

    region: str
    reading: ReadSpec
    transform: NamedTransform | None
    targets: tuple[str, ...]
    """The names of those that rows are made for."""
    spark: str
    """The id of Spark's connection."""
    project: Path | None
    """Whose modules the tasks import; None without code of the user's own."""
    driver: Mapping[str, str | int] = field(repr=False)
    """How the driver reaches Postgres: not as its tasks do."""


def job_spec(pipeline: Pipeline, endpoints: Endpoints, member: int = 0) -> JobSpec:
    """The jobs of a pipeline's member; raises as `read_spec`."""
    return JobSpec(
        region=pipeline.region,
        reading=read_spec(pipeline, endpoints, member),
        transform=pipeline.named_transform,
        targets=tuple(pipeline.all_targets),
        spark=pipeline.spark.connection,
        project=pipeline.project if pipeline.has_code else None,
        driver=postgres_parameters(endpoints.warehouse),
    )


def read_spec(pipeline: Pipeline, endpoints: Endpoints, member: int = 0) -> ReadSpec:
    """How the pipeline's records are read; nothing is recorded until a batch is named.

    Readers name the region's group id, which needs no further ACL, and never join it.

    Raises:
        InvalidSettings: a decoder of the user's own can't be made, see `decoder_of`.
    """
    decoding = decoding_of(
        pipeline.decode,
        endpoints.registries,
        old_key_of(pipeline),
        keeps_deleted=pipeline.keeps_deleted,
    )
    kafka = endpoints.executors_kafka or endpoints.kafka
    warehouse = endpoints.executors_warehouse or endpoints.warehouse
    return ReadSpec(
        kafka=kafka_config(kafka) | {"group.id": pipeline.group},
        postgres=postgres_parameters(warehouse),
        decoding=decoding,
        fields=RecordDecoder(decoding).schema,
        metadata=tuple(map(str, pipeline.decode.metadata)),
        member=member,
        no_progress_seconds=pipeline.no_progress_seconds,
        max_unpacked=pipeline.kafka.max_unpacked_bytes,
        dead_letter_bytes=pipeline.dead_letters.kept_bytes,
        leaves_out=any(
            one.on_refused is OnRefused.dead_letter for one in pipeline.all_targets.values()
        ),
    )


def old_key_of(pipeline: Pipeline) -> OldKey | None:
    """Which updates among change events delete an old key, as the targets need it.

    Without a transform the key is known. A transform may make it of any column, and so is given the
    row before of each update that changes one. It can't give that row to targets that append, or
    upsert without deleting: there an update of a column that has the key's name is refused.
    """
    targets, declared = pipeline.all_targets.values(), tuple(pipeline.decode.declared)
    key = tuple(name for name in declared if any(name in one.key for one in targets))
    if not pipeline.decode.is_event or not any(one.key for one in targets):
        return None
    if pipeline.transform and all(one.deleted for one in targets):
        return OldKey(declared, is_key=False)
    return OldKey(key, is_refused=pipeline.transform is not None)


def decoding_of(
    settings: DecodeSettings,
    registries: Connections,
    old_key: OldKey | None = None,
    *,
    keeps_deleted: bool = False,
) -> Decoding:
    """What the pipeline's decoder is made of; `keeps_deleted` is the pipeline's.

    Raises:
        InvalidSettings: a registry's connection can't be used.
    """
    return replace(
        _part(settings, registries),
        takes_null=Metadata.tombstone in settings.metadata,
        envelope=settings.envelope and str(settings.envelope),
        placeholder=settings.placeholder,
        refuses_deletion=keeps_deleted and not settings.is_event,
        source=tuple(map(str, settings.source)),
        old_key=old_key,
        key=_key(settings.key, registries) if settings.key else None,
    )


def _key(settings: KeySettings, registries: Connections) -> Decoding:
    envelope = settings.envelope and str(settings.envelope)
    return replace(_part(settings, registries), takes_null=True, envelope=envelope)


def columns_given(settings: DecodeSettings) -> pa.Schema:
    """The columns that a transform is given, where they are declared; no registry is asked.

    Raises:
        InvalidSettings: see `RecordDecoder`.
    """
    nowhere = {name: Connection(name, "http", NOWHERE) for name in settings.registries}
    fields = RecordDecoder(decoding_of(settings, nowhere)).schema
    return row_schema(fields, tuple(map(str, settings.metadata)))


def _part(settings: FormatSettings, registries: Connections) -> Decoding:
    registry = registry_config(registries[settings.registry]) if settings.registry else {}
    return Decoding(
        format=str(settings.format),  # plain texts: a task need not import the pipeline
        declared=arrow_schema(settings.declared) if settings.declared else pa.schema([]),
        framing=settings.framing and str(settings.framing),
        refuses_new=settings.on_new_field is OnNewField.refuse,
        takes_no_field=settings.on_no_field is OnNoField.row,
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
    writing = WriteSpec(
        postgres=spec.postgres,
        staging=batch.staging,
        schemas=rows,
        member=spec.member,
        leaves_out=spec.leaves_out,
    )
    return reading, writing
