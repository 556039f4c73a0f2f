"""The job's part of `tidemark check`: decode, transform, and whether its output fits."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from tidemark.cli.findings import Doubtful, Finding, State, finding
from tidemark.cli.project import connections_of, prepare_spark
from tidemark.member.job import JobExecutor
from tidemark.model.amount import amount
from tidemark.operations.fit import known_schemas, with_columns_in_use, would_fit
from tidemark.postgres.parameters import postgres_parameters
from tidemark.postgres.transaction import connect
from tidemark.settings.pipeline import Pipeline

RECORDS = 100
"""That a schema is inferred from."""

if TYPE_CHECKING:
    import pyarrow as pa

    from tidemark.spark.arrow import ArrowTransform


def job_findings(pipeline: Pipeline, *, with_spark: bool) -> Iterator[Finding]:
    """The declared fields, the transform, its output beside the target."""
    known: list[Pipeline] = []
    fields = finding("decode", lambda: _fields(pipeline, known))
    yield fields
    transform = finding("transform", lambda: _transform(pipeline))
    yield transform
    if fields.state is not State.ok or transform.state is not State.ok:
        return
    if not with_spark and pipeline.transform is not None and _arrow(pipeline) is None:
        yield Finding("output", State.skipped, "not checked, as asked: Spark was not started")
        return
    remarks: list[str] = []
    yield finding("output", lambda: _output(known[0], remarks, with_spark=with_spark))
    yield from (Finding("batches", State.warned, remark) for remark in remarks)


def inferred_findings(pipeline: Pipeline) -> Iterator[Finding]:
    """A schema to paste; without one nothing more can be checked."""
    yield finding("decode", lambda: _inferred(pipeline))


def _inferred(pipeline: Pipeline) -> str:
    from tidemark.cli.inferred import inferred_of

    found = inferred_of(pipeline, RECORDS)
    raise Doubtful(
        f"schema: infer; the first {found.records} records have these fields:\n{found.told}",
        "look at each type and paste them; the region, the transform and the target are checked"
        " with them",
    )


def _fields(given: Pipeline, known: list[Pipeline]) -> str:
    """What is decoded into; `known` is given the pipeline with its columns."""
    from tidemark.decode.registry import registry_of
    from tidemark.spark.record_decoder import RecordDecoder
    from tidemark.spark.specs import decoding_of

    prepare_spark(given)
    connections = connections_of(given) if given.decode.registries else {}
    pipeline = with_columns_in_use(given, connections)
    known.append(pipeline)
    decoding = decoding_of(pipeline.decode, connections)
    columns = RecordDecoder(decoding).schema
    told = f"{pipeline.decode.format}: {amount(len(columns), 'column')}"
    parts = [decoding, decoding.key] if decoding.key else [decoding]
    asked = {registry_of(one.registry).ping() for one in parts if one.registry}
    return f"{told}; schemas from {', '.join(sorted(asked))}" if asked else told


def _transform(pipeline: Pipeline) -> str:
    if pipeline.transform is None:
        return "none: the columns are passed on"
    kind = "RecordBatch" if _arrow(pipeline) else "DataFrame"
    return f"{pipeline.transform} can be imported: {kind} to {kind}"


def _arrow(pipeline: Pipeline) -> "ArrowTransform | None":
    """The transform, if it is one whose columns are found without Spark."""
    from tidemark.spark.arrow import ArrowTransform
    from tidemark.spark.transform import transform_of

    prepare_spark(pipeline)
    transform = transform_of(pipeline)
    return transform if isinstance(transform, ArrowTransform) else None


def _output(pipeline: Pipeline, remarks: list[str], *, with_spark: bool) -> str:
    from tidemark.spark.executor import spark_executor

    prepare_spark(pipeline)
    connections = connections_of(pipeline)
    schemas = None if with_spark else known_schemas(pipeline, connections)
    if schemas is None:
        schemas = _schemas(lambda: spark_executor(pipeline, connections, 0), remarks)
    engine = connect(postgres_parameters(connections[pipeline.warehouse]))
    try:
        found = would_fit(pipeline, engine, schemas)
    finally:
        engine.dispose()
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
