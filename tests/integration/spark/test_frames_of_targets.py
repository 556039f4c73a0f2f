"""Several targets of a DataFrame transform, by real Spark: read once, staged by one job."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from tests.support.batches import Batches, Run
from tests.support.documents import ROOT, blocks

from tidemark.errors import IncompleteRead
from tidemark.model.batch import ONLY, Attempt, Batch
from tidemark.model.errors import RowsNotConsumed
from tidemark.model.offsets import Span
from tidemark.spark import _frame as frames
from tidemark.spark import executor as executors
from tidemark.spark._plans import as_source
from tidemark.spark.errors import TransformCutsRows, TransformLeftSource, TransformRowsVary
from tidemark.spark.executor import SparkExecutor

pytestmark = pytest.mark.spark

EXAMPLE = blocks(ROOT / "docs" / "targets.md")[2]
ODD, EVEN = "odd", "even"
BOTH = (ODD, EVEN)
Frames = dict[str, DataFrame]


def apart(rows: DataFrame) -> Frames:
    """The odd numbers with a time and an odd name, and the even ones without their text."""
    odd = rows.where(F.col("n") % 2 == 1).withColumn("at.`x`", F.timestamp_seconds("n"))
    return {EVEN: rows.where(F.col("n") % 2 == 0).drop("text"), ODD: odd}


def found(batches: Batches, batch: Batch, winners: list[Attempt], name: str) -> list[int]:
    """The numbers that the winners staged for a target."""
    wanted = {one.key for one in winners}
    table = batch.staging.of_target(name).rows
    return [n for n, *by in batches._all(table, "n, member, attempt") if tuple(by) in wanted]


def test_records_are_read_once_and_staged_for_each(run: Run, batches: Batches) -> None:
    """B8: each in its table; a record's dead letter is staged once."""
    batch, winners = run(apart, BOTH)
    assert found(batches, batch, winners, ODD) == [1, 3, 5, 7, 9, 11]
    assert found(batches, batch, winners, EVEN) == [0, 2, 4, 6, 8, 10]
    counted = Counter[str]()
    for winner in winners:
        counted.update(winner.rows)
    assert counted == {ODD: 6, EVEN: 6}
    assert len(batches.reads(batch)) == 2
    assert len(batches.dead_letters(batch)) == 1
    times = batches._all(batch.staging.of_target(ODD).rows, '"at.`x`"::text, n')
    assert times[0] == ("1970-01-01 00:00:01+00", 1)


@pytest.mark.long
def test_shuffles_joins_and_caches_are_no_hindrance(run: Run, batches: Batches) -> None:
    """B8: of one target and of the other, beside rows that go to both."""

    def transform(rows: DataFrame) -> Frames:
        shared = rows.withColumn("twice", F.col("n") * 2).cache()
        newest = shared.groupBy((F.col("n") % 3).alias("third")).agg(F.max("n").alias("n"))
        return {ODD: newest, EVEN: shared.union(shared)}

    batch, winners = run(transform, BOTH)
    assert found(batches, batch, winners, ODD) == [9, 10, 11]
    assert found(batches, batch, winners, EVEN) == sorted([*range(12), *range(12)])


@pytest.mark.long
@pytest.mark.parametrize("targets", [(ONLY,), BOTH], ids=["one", "several"])
def test_what_a_transform_caches_goes_with_its_batch(
    run: Run, spark: SparkSession, targets: tuple[str, ...]
) -> None:
    """B8: or the disks of a long run fill; what is made of no record stays."""
    lookup = spark.range(3).cache()
    assert lookup.count() == 3
    before = kept(spark)

    def transform(rows: DataFrame) -> Any:
        twice = rows.withColumn("twice", F.col("n") * 2).cache()
        assert twice.join(lookup, twice.n == lookup.id).cache().count() >= 0
        return twice if targets == (ONLY,) else dict.fromkeys(targets, twice)

    run(transform, targets)
    assert kept(spark) == before
    lookup.unpersist(True)


def kept(spark: SparkSession) -> set[int]:
    """The numbers of what Spark keeps."""
    return set(spark.sparkContext._jsc.getPersistentRDDs().keySet().toArray())


def empty(rows: DataFrame) -> DataFrame:
    return rows.sparkSession.createDataFrame([], rows.schema)


@pytest.mark.long
@pytest.mark.parametrize(
    ("cut", "refusal"),
    [
        (lambda rows: rows.limit(3), TransformCutsRows(cuts=("limit",))),
        (lambda rows: rows.offset(3), TransformCutsRows(cuts=("offset",))),
        (empty, TransformLeftSource()),
    ],
)
@pytest.mark.parametrize("name", [ODD, EVEN])
def test_a_target_whose_rows_are_cut_is_refused(
    spark: SparkSession,
    batches: Batches,
    spans: list[Span],
    cut: Callable[[DataFrame], DataFrame],
    refusal: IncompleteRead,
    name: str,
) -> None:
    """B8, B16: though the other one takes all of them; at the start, and of a batch."""
    calls = []

    def later(rows: DataFrame) -> Frames:
        calls.append(rows)
        return (
            dict.fromkeys(BOTH, rows)
            if len(calls) == 1
            else {**dict.fromkeys(BOTH, rows), name: cut(rows)}
        )

    executor = SparkExecutor(batches.spec(), later, lambda: spark.sparkContext, BOTH)
    batch = batches.new(spans, executor.output_schemas())
    with pytest.raises(type(refusal)) as of_batch:
        executor.drain(batch, spans)
    again = SparkExecutor(batches.spec(), later, lambda: spark.sparkContext, BOTH)
    with pytest.raises(type(refusal)) as at_start:
        again.output_schemas()
    assert of_batch.value.fields() == at_start.value.fields() == refusal.fields()


@pytest.mark.long
def test_each_target_takes_every_row(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """B8, B16: counted where each uses what is kept; that Spark kept all of it proves nothing."""
    for module in (executors, frames):
        monkeypatch.setattr(module, "refuse_cuts", lambda rows: ())
    with pytest.raises(RowsNotConsumed):
        run(lambda rows: {ODD: rows, EVEN: rows.where("n < 9").limit(1)}, BOTH)


@pytest.mark.long
def test_the_example_makes_an_order_and_its_lines(spark: SparkSession) -> None:
    """B8: the one of docs/targets.md that takes DataFrames; its file declares the columns."""
    known: dict[str, Any] = {}
    exec(EXAMPLE.text, known)  # the document's own text
    place = {"kafka_topic": "t", "kafka_partition": 0, "kafka_offset": 1}
    lines = [{"sku": "a", "quantity": 1}, {"sku": "b", "quantity": 2}]
    given = spark.createDataFrame(
        [Row(order_id=7, customer="x", lines=lines, **place)],
        "order_id bigint, customer string, lines array<struct<sku:string,quantity:int>>,"
        " kafka_topic string, kafka_partition int, kafka_offset bigint",
    )
    parts = frames.transformed(known["transform"], as_source(given), ("orders", "lines"))
    shape = frames.shape_of(parts, as_source(given))
    assert [*shape.schemas] == ["orders", "lines"]
    assert [(row.sku, row.quantity) for row in parts["lines"].collect()] == [("a", 1), ("b", 2)]


@pytest.mark.long
def test_values_that_vary_are_refused_in_two_targets(run: Run) -> None:
    """B8: an id that is invented for both would differ; in one of them it does no harm."""

    def one(rows: DataFrame) -> Frames:
        return {ODD: rows.withColumn("id", F.uuid()), EVEN: rows.withColumn("at", F.now())}

    run(one, BOTH)

    def shared(rows: DataFrame) -> Frames:
        known = rows.withColumn("id", F.rand())
        return {ODD: known.where("n % 2 = 1"), EVEN: known.drop("text")}

    with pytest.raises(TransformRowsVary) as refused:
        run(shared, BOTH)
    assert refused.value.targets == BOTH
