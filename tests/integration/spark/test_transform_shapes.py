"""What a transform may do with its rows, what is refused, and what is remarked.

8,012 records: less than one Arrow batch, so that Python has written everything before Spark takes
the first row.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from tests.support.batches import Batches, documents
from tests.support.databases import database_of
from tests.support.produce import produce
from tests.support.region import kafka_connection, postgres_connection
from tests.support.topics import create_topic

from tidemark.check._job import job_findings
from tidemark.check.findings import State
from tidemark.check.first_records import preview_of
from tidemark.errors import (
    IncompleteRead,
    InvalidSettings,
    SchemaMismatch,
    TidemarkError,
    TransformFailed,
)
from tidemark.model.batch import ONLY
from tidemark.model.errors import RowsNotConsumed
from tidemark.model.offsets import Span
from tidemark.settings.connections import Connection
from tidemark.settings.pipeline import Pipeline
from tidemark.spark import _frame
from tidemark.spark import executor as executors
from tidemark.spark.errors import TransformCutsRows, TransformLeftSource
from tidemark.spark.executor import SparkExecutor
from tidemark.spark.transform import ArrowTransform, FrameTransform, Transform, transform_of
from tidemark.testing import run_transform
from tidemark_local.stack import LocalStack

pytestmark = pytest.mark.spark

RECORDS = 8_012
IN_SECOND = 12
Drain = Callable[[Transform], int]


@pytest.fixture(scope="module")
def batches(kafka: str, stack: LocalStack) -> Iterator[Batches]:
    for warehouse in database_of(stack.postgres):
        yield Batches(kafka, warehouse)


@pytest.fixture(scope="module")
def spans(kafka: str, admin: AdminClient) -> Iterator[list[Span]]:
    """8,000 records and a dead letter in one partition, 12 in the other."""
    name = f"t-{uuid4().hex[:12]}"
    create_topic(admin, NewTopic(name, num_partitions=2, replication_factor=1))
    first = RECORDS - IN_SECOND
    produce(kafka, name, [*documents(first), b"bad"], 0)
    produce(kafka, name, documents(IN_SECOND, first), 1)
    yield [Span(name, 0, 0, first + 1), Span(name, 1, 0, IN_SECOND)]
    admin.delete_topics([name])[name].result(120)


@pytest.fixture
def drain(spark: SparkSession, batches: Batches, spans: list[Span]) -> Drain:
    """Drain both spans in one batch; how many rows the winners staged."""

    def drained(transform: Transform) -> int:
        executor = SparkExecutor(batches.spec(), transform, lambda: spark.sparkContext)
        batch = batches.new(spans, executor.output_schemas())
        return sum(winner.rows.get(ONLY, 0) for winner in executor.drain(batch, spans))

    return drained


def cached(rows: DataFrame) -> DataFrame:
    rows.cache().count()
    return rows.where("n >= 0")


def cached_and_lost(rows: DataFrame) -> DataFrame:
    """Twice from a cache whose blocks are gone: the source is read again in the same plan."""
    rows.cache().count()
    for kept in rows.sparkSession.sparkContext._jsc.getPersistentRDDs().values():
        kept.unpersist(True)
    return rows.union(rows)


def counted(rows: DataFrame) -> DataFrame:
    rows.count()
    rows.take(3)
    return rows


def with_first_of_another(rows: DataFrame) -> DataFrame:
    """A limit of rows that do not come from Kafka is none of our business."""
    other = rows.sparkSession.range(100).withColumnRenamed("id", "other").limit(1)
    return rows.crossJoin(other)


def joined_with_nothing(rows: DataFrame) -> DataFrame:
    return rows.join(rows.where("text = 'nowhere'").select("n"), "n")


def newest(rows: DataFrame) -> DataFrame:
    by_text = Window.partitionBy("text").orderBy(F.desc("n"))
    return rows.withColumn("place", F.row_number().over(by_text)).where("place = 1")


def chain(rows: DataFrame) -> DataFrame:
    """What most transforms are made of, and a shuffle."""
    parts = rows.sample(1.0).mapInArrow(lambda parts: parts, rows.schema)
    return parts.repartition(3, "n").sort("n").where("n % 2 = 0")


ALONE: dict[str, FrameTransform] = {
    "group": lambda rows: rows.groupBy(F.col("n") % 7).count(),
    "distinct": lambda rows: rows.distinct(),
    "window": newest,
    "self-join": lambda rows: rows.join(rows.select("n"), "n"),
    "limit-elsewhere": with_first_of_another,
}
WHOLE: dict[str, tuple[FrameTransform, int]] = {
    "chain": (chain, RECORDS // 2),
    "union-in-one-task": (lambda rows: rows.union(rows).coalesce(1), 2 * RECORDS),
    "cache": (cached, RECORDS),
    "lost-cache": (cached_and_lost, 2 * RECORDS),
    "count": (counted, RECORDS),
    "by-batch": (lambda rows: ALONE["group"](newest(rows.distinct())), 7),
    "joins": (lambda rows: with_first_of_another(ALONE["self-join"](rows)), RECORDS),
    "empty-join": (joined_with_nothing, 0),
}


SHORT = {"chain", "joins"}
"""What `make test` drains: the shapes of most transforms."""


@pytest.mark.parametrize(
    "shape", [pytest.param(one, marks=[pytest.mark.long] * (one not in SHORT)) for one in WHOLE]
)
def test_what_takes_every_row_is_drained(shape: str, drain: Drain) -> None:
    transform, rows = WHOLE[shape]
    assert drain(transform) == rows


def taken_and_made_anew(rows: DataFrame) -> DataFrame:
    return rows.sparkSession.createDataFrame(rows.take(10), rows.schema)


def some_and_others(rows: DataFrame) -> DataFrame:
    return rows.where("n < 100").limit(10).union(rows.where("n >= 100"))


LIMIT = TransformCutsRows(cuts=("limit",))
CUT: dict[str, tuple[Transform, IncompleteRead]] = {
    "limit": (lambda rows: rows.limit(10), LIMIT),
    "limit-of-one-side": (some_and_others, LIMIT),
    "limit-in-sql": (
        lambda rows: rows.sparkSession.sql("SELECT * FROM {rows} LIMIT 10", rows=rows),
        LIMIT,
    ),
    "take": (taken_and_made_anew, TransformLeftSource()),
    "rdd": (lambda rows: rows.rdd.toDF(rows.schema), TransformLeftSource()),
}
SORTED: dict[str, tuple[Transform, IncompleteRead]] = {
    "sorted-limit": (lambda rows: rows.sort("n").limit(10), LIMIT),
    "offset": (lambda rows: rows.offset(10), TransformCutsRows(cuts=("offset",))),
}
"""Every row is taken from the source and cut off behind it: only the plan shows that."""


@pytest.mark.parametrize("shape", CUT | SORTED)
def test_a_plan_that_cuts_is_refused_before_anything_is_read(
    shape: str, batches: Batches, spark: SparkSession
) -> None:
    transform, refusal = (CUT | SORTED)[shape]
    executor = SparkExecutor(batches.spec(), transform, lambda: spark.sparkContext)
    with pytest.raises(type(refusal)) as refused:
        executor.output_schemas()
    assert refused.value.fields() == refusal.fields()


@pytest.mark.parametrize(
    "transform",
    [
        pytest.param(CUT["limit"][0], marks=pytest.mark.long, id="limit"),
        pytest.param(some_and_others, id="limit-of-one-side"),
        pytest.param(taken_and_made_anew, marks=pytest.mark.long, id="take"),
        pytest.param(
            lambda rows: rows.where(F.lit(False)), marks=pytest.mark.long, id="never-true"
        ),
    ],
)
def test_rows_that_spark_did_not_take_are_missed_whatever_the_plan_says(
    transform: Transform, drain: Drain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B16: ten rows of a span that Python has written whole."""
    for module in (executors, _frame):
        monkeypatch.setattr(module, "refuse_cuts", lambda rows: ())
    with pytest.raises(RowsNotConsumed):
        drain(transform)


def test_a_plan_that_cuts_later_is_refused_without_counting(
    drain: Drain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B16."""
    calls: list[int] = []

    def fickle(rows: DataFrame) -> DataFrame:
        calls.append(1)
        return rows if len(calls) == 1 else rows.limit(10)

    monkeypatch.setattr(executors, "refuse_unconsumed", lambda *_: None)
    with pytest.raises(TransformCutsRows) as refused:
        drain(fickle)
    assert refused.value.cuts == ("limit",)


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ("group", "uses groupBy or agg:"),
        ("distinct", "uses distinct or dropDuplicates:"),
        ("window", "uses a window function:"),
        ("self-join", "uses a join of the rows with themselves:"),
        ("chain", "uses mapInArrow or mapInPandas: its function must read its input to the end"),
        ("limit-elsewhere", None),
        ("union-in-one-task", None),
    ],
)
def test_what_depends_on_where_batches_are_cut_is_remarked(
    shape: str, says: str | None, batches: Batches, spark: SparkSession
) -> None:
    transform = ALONE.get(shape) or WHOLE[shape][0]
    executor = SparkExecutor(batches.spec(), transform, lambda: spark.sparkContext)
    remarks = executor.remarks()
    assert [says in remark for remark in remarks] == [True] if says else remarks == ()


def looked_up(rows: DataFrame) -> DataFrame:
    """Each row of ours once, with what another table says of it."""
    other = rows.sparkSession.range(100).withColumnRenamed("id", "n")
    return rows.join(other.withColumn("known", F.lit(True)), "n", "left")


def beside_others(rows: DataFrame) -> DataFrame:
    """Rows of another table too, where no record of the batch is like them."""
    other = rows.sparkSession.range(100).withColumnRenamed("id", "n")
    return rows.join(other, "n", "right")


def among_themselves(rows: DataFrame) -> DataFrame:
    """Rows that another row of the batch is like."""
    others = rows.alias("other").where(F.col("other.n") == F.col("own.n").outer() + 1)
    return rows.alias("own").where(others.exists())


def of_one_record(rows: DataFrame) -> DataFrame:
    """Rows of some records, in an order of their own."""
    some = rows.withColumn("m", F.explode(F.array("n", F.col("n") + 1))).drop("text")
    return some.where("n % 2 = 0").repartition(3, "n").sort("n")


BY_RECORD: dict[str, Transform] = {
    "identity": lambda rows: rows,
    "of-one-record": of_one_record,
    "lookup": looked_up,
    "limit-elsewhere": with_first_of_another,
}
NOT_BY_RECORD: dict[str, Transform] = {
    "distinct": ALONE["distinct"],
    "window": newest,
    "self-join": ALONE["self-join"],
    "map-in-arrow": lambda rows: rows.mapInArrow(lambda parts: parts, rows.schema),
    "union": lambda rows: rows.union(rows),
    "right-join": beside_others,
    "subquery": among_themselves,
    "no-coordinates": lambda rows: rows.drop("kafka_offset"),
    "other-coordinates": lambda rows: rows.withColumn("kafka_offset", F.col("kafka_offset") + 1),
}


@pytest.mark.parametrize("shape", [*BY_RECORD, *NOT_BY_RECORD])
def test_only_what_is_made_of_one_record_is_proven_with_other_batches(
    shape: str, batches: Batches, spark: SparkSession
) -> None:
    """B5: else a proof of several batches at once would be none of each."""
    transform = (BY_RECORD | NOT_BY_RECORD)[shape]
    executor = SparkExecutor(batches.spec(), transform, lambda: spark.sparkContext)
    assert executor.is_by_record() == (shape in BY_RECORD)


FAULTY = """
from pyspark.sql import functions as F
def cuts(rows): return rows.limit(10)
def groups(rows): return rows.groupBy("n").count()
def raises(rows): return rows.where("nothing > 1")
def drops(rows): return rows.where("n % 5 > 0")
def nothing(rows): rows.show()
import pyarrow as pa
def by_data(rows):
    for row in rows.select("n").distinct().collect()[:3]:
        rows = rows.withColumn(f"is_{row.n}", F.col("n") == row.n)
    return rows
def by_arrow_data(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.append_column("any", rows["n"]) if rows.num_rows else rows
def taken(rows): return rows.sparkSession.createDataFrame(rows.take(10), rows.schema)
def interval(rows): return rows.withColumn("later", F.expr("INTERVAL '1' DAY"))
def numbered(rows): return rows.withColumn("batch_seq", F.col("n"))
def renamed(rows): return rows.withColumnRenamed("n", "m")
def placeless(rows): return rows.drop("kafka_offset")
def half_marked(rows): return rows.withColumn("gone", F.lit("no"))
def fails_on_data(rows): return rows.where(F.raise_error(F.lit("no")).isNull())
"""


@pytest.fixture
def connections(batches: Batches) -> dict[str, Connection]:
    found = kafka_connection(batches.kafka), postgres_connection(batches.warehouse)
    return {one.conn_id: one for one in found}


@pytest.fixture
def pipeline(
    tmp_path: Path, spans: list[Span], spark: SparkSession, monkeypatch: Any
) -> Callable[[str], Pipeline]:
    """A pipeline with this transform, as the commands know it; they share one Spark."""
    module = f"faulty_{uuid4().hex[:8]}"
    (tmp_path / f"{module}.py").write_text(FAULTY)
    (tmp_path / f"{module}_broken.py").write_text("def transform(rows):\n    return rows(\n")
    (tmp_path / f"{module}_import.py").write_text("import no_such_module\n")
    monkeypatch.setattr(SparkExecutor, "close", lambda self: None)
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return lambda transform, **target: Pipeline.model_validate(
        {
            "region": "faulty",
            "kafka": {"connection": "tidemark_kafka", "topics": [spans[0].topic]},
            "decode": {"format": "json", "fields": {"n": "bigint"}},
            "target": {"connection": "tidemark_warehouse", "table": "public.faulty"} | target,
            "transform": f"{module}{transform}",
        }
    )


@pytest.fixture
def project(
    pipeline: Any, connections: dict[str, Connection]
) -> Callable[[str], dict[str, tuple[State, str]]]:
    """What `tidemark check` finds in a pipeline with this transform."""

    def found(transform: str, **target: Any) -> dict[str, tuple[State, str]]:
        findings = job_findings(
            pipeline(transform, **target),
            connections.__getitem__,
            executors.spark_executor,
            prepare=lambda _: None,
            with_spark=True,
        )
        return {one.check: (one.state, f"{one.fact} {one.remedy}") for one in findings}

    return found


UPSERT = {"mode": "upsert", "key": ["n"]}
BAD: dict[str, tuple[type[TidemarkError], dict[str, Any]]] = {
    "by_data": (SchemaMismatch, {}),
    "by_arrow_data": (SchemaMismatch, {}),
    "interval": (SchemaMismatch, {}),
    "numbered": (SchemaMismatch, {}),
    "cuts": (IncompleteRead, {}),
    "taken": (IncompleteRead, {}),
    "nothing": (InvalidSettings, {}),
    "raises": (TransformFailed, {}),
    "fails_on_data": (TransformFailed, {}),
    "renamed": (InvalidSettings, UPSERT),
    "placeless": (InvalidSettings, UPSERT),
    "half_marked": (InvalidSettings, UPSERT | {"deleted": "gone"}),
}
"""Bad transforms with the error of each, and how their target is written to."""

ONLY_WITH_RECORDS = {"by_data", "by_arrow_data", "fails_on_data"}
"""What a check, which reads none, does not see."""


@pytest.mark.parametrize(
    "bad",
    [pytest.param(one, marks=[pytest.mark.long] * (one not in ("by_data", "cuts"))) for one in BAD],
)
def test_a_test_a_preview_a_check_and_a_run_refuse_alike(
    bad: str,
    pipeline: Any,
    project: Any,
    connections: dict[str, Connection],
    tmp_path: Path,
    drain: Drain,
) -> None:
    """B11"""
    refusal, target = BAD[bad]
    loaded = pipeline(f":{bad}", **target)
    file = tmp_path / "bad.yaml"
    file.write_text(yaml.safe_dump(loaded.model_dump(mode="json", by_alias=True)))
    with pytest.raises(refusal):
        run_transform(file, documents(20))
    with pytest.raises(refusal):
        preview_of(loaded, connections, 20)
    state, text = project(f":{bad}", **target)["output"]
    assert state is (State.ok if bad in ONLY_WITH_RECORDS else State.failed), text
    transform = transform_of(loaded.named_transform)
    if transform and not target and not isinstance(transform, ArrowTransform):  # not to be imported
        with pytest.raises(refusal):
            drain(transform)


def test_check_names_the_line_where_a_transform_is_wrong(
    project: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    state, text = project(":raises")["output"]
    assert "QueryContextLogger" not in capsys.readouterr().err
    assert state is State.failed
    assert "nothing" in text
    assert "line 5, in raises" in text
    state, text = project("_broken:transform")["transform"]
    assert (state, "line 2" in text, "SyntaxError" in text) == (State.failed, True, True), text
    state, text = project("_import:transform")["transform"]
    assert (state, "no_such_module" in text, "line 1" in text) == (State.failed, True, True), text
