"""What a check says of the job and the region.

Decode, transform, and whether the job's output fits; and whether the region could open now.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidemark.check._compaction import refuse_long_pause
from tidemark.check.findings import Doubtful, Finding, State, Unknown, Wrong, finding, found_by
from tidemark.check.first_records import WHOLE_ROWS, SourceKey, inferred_of, raw_records, sample_of
from tidemark.decode.port import Reason
from tidemark.decode.registry import registry_of
from tidemark.errors import TidemarkError
from tidemark.ledger.ledger import Ledger
from tidemark.ledger.regions import refuse_shared
from tidemark.model.deletions import UnreadSince
from tidemark.model.facts import backlog
from tidemark.model.offsets import TopicPartition
from tidemark.model.plain import amount
from tidemark.model.state import Partition, RegionState
from tidemark.runs.fit import Fit, known_schemas, with_columns_in_use, would_fit
from tidemark.runs.job import JobExecutor
from tidemark.runs.member import ExecutorOf
from tidemark.runs.open import open_request, opening_facts
from tidemark.runs.region import Region, ledger_of, region_of
from tidemark.runs.schemas import evolved
from tidemark.runs.targets import writers_of
from tidemark.settings.decode import DELETED_FIELD
from tidemark.settings.endpoints import ConnectionOf, Connections, Endpoints, looked_up
from tidemark.settings.pipeline import Pipeline
from tidemark.spark.record_decoder import RecordDecoder
from tidemark.spark.specs import decoding_of, job_spec
from tidemark.spark.transform import ArrowTransform, transform_of

if TYPE_CHECKING:
    import pyarrow as pa


RECORDS = 100
"""That a schema is inferred from, and whose types are told."""

_REMEDIES: dict[str, str] = {
    Reason.NO_DECLARED_FIELD: "read only topics of one type of record, or declare its fields; set"
    " decode.envelope: connect where rows are payloads beside a schema",
    Reason.DELETION: f"declare {DELETED_FIELD}: boolean, with target.deleted: {DELETED_FIELD}",
}


def job_findings(
    pipeline: Pipeline,
    connection_of: ConnectionOf,
    executor_of: ExecutorOf,
    *,
    prepare: Callable[[Pipeline], None],
    with_spark: bool,
) -> Iterator[Finding]:
    """The declared fields, the transform, its output beside the target."""
    look = _Job(connection_of, executor_of, prepare)
    fields, known = found_by("decode", lambda: look.fields(pipeline))
    yield fields
    if known is not None:
        yield finding("records", lambda: look.records(known))
    if known and known.decode.is_event and any(known.upsert_of(one) for one in known.all_targets):
        yield finding("key", lambda: look.keys(known))
    transform = finding("transform", lambda: look.transform(pipeline))
    yield transform
    if known is None or transform.state is not State.ok:
        return
    if not with_spark and pipeline.transform is not None and look.arrow(pipeline) is None:
        yield Finding("output", State.skipped, "not checked, as asked: Spark was not started")
        return
    remarks: list[str] = []
    yield finding("output", lambda: look.output(known, remarks, with_spark=with_spark))
    yield from (Finding("batches", State.warned, remark) for remark in remarks)


def inferred_findings(pipeline: Pipeline, connection_of: ConnectionOf) -> Iterator[Finding]:
    """A schema to paste; without one nothing more can be checked."""
    yield finding("decode", lambda: _inferred(pipeline, looked_up(pipeline, connection_of)))


def _inferred(pipeline: Pipeline, connections: Connections) -> str:
    found = inferred_of(pipeline, connections, RECORDS)
    raise Doubtful(
        f"schema: infer; the first {found.records} records have these fields:\n{found.text}",
        "look at each type and paste them; the region, the transform and the target are checked"
        " with them",
    )


@dataclass(frozen=True, slots=True)
class _Job:
    """Looks at a job, each of which returns its fact."""

    connection_of: ConnectionOf
    executor_of: ExecutorOf
    prepare: Callable[[Pipeline], None]

    def fields(self, given: Pipeline) -> tuple[str, Pipeline]:
        """What is decoded into; the pipeline with its columns."""
        self.prepare(given)
        connections = self._connections(given) if given.decode.registries else {}
        pipeline = with_columns_in_use(given, connections)
        decoding = decoding_of(pipeline.decode, connections)
        columns = RecordDecoder(decoding).schema
        told = f"{pipeline.decode.format}: {amount(len(columns), 'column')}"
        parts = [decoding, decoding.key] if decoding.key else [decoding]
        asked = {registry_of(one.registry).ping() for one in parts if one.registry}
        told += f"; schemas from {', '.join(sorted(asked))}" if asked else ""
        return told, pipeline

    def keys(self, pipeline: Pipeline) -> str:
        """Whether change events tell what upserts by the targets' keys need."""
        records = raw_records(pipeline, self._connections(pipeline), RECORDS)
        source = SourceKey.of(records)
        keys = [one.key for one in pipeline.all_targets.values() if one.key]
        if not source.names:
            raise Unknown("the first records tell no key of their source as JSON: not compared")
        if others := [key for key in keys if source.is_other(key)]:
            raise Doubtful(source.text(others[0]), WHOLE_ROWS)
        return f"({', '.join(keys[0])}) is that of the source's rows"

    def records(self, pipeline: Pipeline) -> str:
        """What the first records are."""
        try:
            found = sample_of(pipeline, self._connections(pipeline), RECORDS)
        except TidemarkError:
            raise Unknown("not looked at: they can't be read") from None
        remedies = [_REMEDIES[one] for one in found.reasons if one in _REMEDIES]
        if remedies:
            raise Doubtful(found.text, "; ".join(remedies))
        return found.text

    def transform(self, pipeline: Pipeline) -> str:
        if pipeline.transform is None:
            return "none: the columns are passed on"
        kind = "RecordBatch" if self.arrow(pipeline) else "DataFrame"
        return f"{pipeline.transform} can be imported: {kind} to {kind}"

    def arrow(self, pipeline: Pipeline) -> ArrowTransform | None:
        """The transform, if it is one whose columns are found without Spark."""
        self.prepare(pipeline)
        transform = transform_of(pipeline.named_transform)
        return transform if isinstance(transform, ArrowTransform) else None

    def output(self, pipeline: Pipeline, remarks: list[str], *, with_spark: bool) -> str:
        self.prepare(pipeline)
        endpoints = Endpoints.of(pipeline, self._connections(pipeline))
        spec = job_spec(pipeline, endpoints)
        schemas = None if with_spark else known_schemas(spec)
        if schemas is None:
            schemas = _schemas(lambda: self.executor_of(spec), remarks)
        with ledger_of(endpoints.warehouse) as ledger:
            return _told(would_fit(ledger.engine, writers_of(pipeline, schemas)))

    def _connections(self, pipeline: Pipeline) -> Connections:
        return looked_up(pipeline, self.connection_of)


def _told(found: Fit) -> str:
    told = [
        f"{len(one.published)} columns {'would make' if is_new else 'fit'} {one.target}"
        for one, is_new in found.tables
    ]
    told += [f"{table} would be given {', '.join(names)}" for table, names in found.added.items()]
    told += found.remarks
    return "; ".join(told)


def _schemas(start: Callable[[], JobExecutor], remarks: list[str]) -> "Mapping[str, pa.Schema]":
    executor = start()
    try:
        remarks += executor.remarks()
        return executor.output_schemas()
    finally:
        executor.close()


def region_findings(pipeline: Pipeline, connection_of: ConnectionOf) -> Iterator[Finding]:
    """Whether Kafka still holds what the ledger needs, or a new region may start as it says."""
    yield finding(f"region {pipeline.region}", lambda: _region(pipeline, connection_of))


def _region(pipeline: Pipeline, connection_of: ConnectionOf) -> str:
    try:
        connections = looked_up(pipeline, connection_of)
    except TidemarkError:
        raise Unknown("not asked: a connection is missing") from None
    with region_of(pipeline, connections) as opened:
        region = opened
        if region.ledger.ledger_is_there():
            refuse_shared(region.name, region.others())
        state = region.ledger.known_region(region.name)
        found = evolved(pipeline, region.endpoints.registries, state)
        region = replace(region, pipeline=found.pipeline)
        told = _new(region) if state is None else _known(region, state, found.added)
        return "; ".join((told, *found.remarks))


def _new(region: Region) -> str:
    opening_facts(region, ())
    return f"is new, starts at {region.pipeline.kafka.start}"


def _known(region: Region, state: RegionState, added: frozenset[str]) -> str:
    if state.group_id != region.group.group_id:
        raise Wrong(
            f"belongs to consumer group {state.group_id}, the pipeline says"
            f" {region.group.group_id}",
            f"set kafka.group: {state.group_id}; another group needs a new region",
        )
    facts, partitions = opening_facts(region, ()), region.ledger.partitions(region.name)
    request = replace(
        open_request(region, "check", region.pipeline.bounds(), facts, state.epoch), added=added
    )
    request.check(FoundRegion(state, partitions, region.ledger))
    kept = [ms for ms in (facts.deletions or {}).values() if ms is not None]
    refuse_long_pause(min(kept, default=None), region.ledger.queries.longest_pause(region.name))
    to_read = backlog({at: one.next_offset for at, one in partitions.items()}, facts.ends)
    return (
        f"epoch {state.epoch}, head {state.head_seq}; Kafka holds all from there,"
        f" {amount(to_read, 'offset')}"
    )


@dataclass(frozen=True, slots=True)
class FoundRegion:
    """The region as a look found it, without lock; see the port `LedgerRegion`."""

    state: RegionState
    known: dict[TopicPartition, Partition]
    ledger: Ledger

    def partitions(self) -> dict[TopicPartition, Partition]:
        return self.known

    def target_oid(self, target: str) -> int | None:
        return self.ledger.target_oid(target)

    def unread(self) -> Mapping[TopicPartition, UnreadSince]:
        return self.ledger.unread(self.state.region)

    def key_forms(self, target: str, columns: Collection[str]) -> Mapping[str, str]:
        return self.ledger.key_forms(target, columns)
