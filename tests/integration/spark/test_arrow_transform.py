"""B17: a batch through an Arrow transform, and both kinds side by side."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.support.batches import Batches, Run
from tests.support.commands import PIPELINE, answer, settle_in, tidemark, write_pipeline
from tests.support.transforms import of_arrow
from tests.support.world import World

from tidemark.errors import TidemarkError
from tidemark.model.batch import ONLY, Batch
from tidemark.model.errors import ReadsLost, RowsNotConsumed
from tidemark.spark import executor as executors
from tidemark.spark.errors import RowsNotTransformed
from tidemark.spark.executor import SparkExecutor
from tidemark.spark.transform import ArrowTransform

pytestmark = pytest.mark.spark


def of_frame(rows: DataFrame) -> DataFrame:
    return rows.where("n % 3 > 0").withColumn("twice", F.col("n") * 2).drop("kafka_topic")


def test_both_kinds_stage_the_same_rows(
    run: Run, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B17: and an Arrow transform without Spark SQL."""
    columns = "n, text, kafka_partition, kafka_offset, twice"
    batch, winners = run(of_frame)
    expected = batches.staged(batch, columns)
    assert [row[0] for row in expected] == [1, 2, 4, 5, 7, 8, 10, 11]

    def refused(*_: object) -> None:
        raise AssertionError("a SparkSession was made")

    monkeypatch.setattr(executors, "SparkSession", refused)
    batch, winners = run(ArrowTransform(of_arrow))
    assert batches.staged(batch, columns) == expected
    assert sum(winner.rows.get(ONLY, 0) for winner in winners) == len(expected)
    assert [read[4:] for read in batches.reads(batch)] == [(11, 1), (2, 0)]
    assert len(batches.dead_letters(batch)) == 1


@pytest.mark.long
def test_what_arrow_libraries_return_is_stored_as_it_is(run: Run, batches: Batches) -> None:
    """B17: polars has string views, others large strings; no column is refused for a flag."""
    kinds = {
        "v": pa.string_view(),
        "l": pa.large_list(pa.large_string()),
        "s": pa.struct([("a", pa.string_view())]),
        "z": pa.timestamp("us", "America/Lima"),
        "d": pa.decimal128(5, 1),
    }
    values = ["x" * 20, ["a", None], {"a": None}, datetime(2024, 1, 1, tzinfo=UTC), None]

    def function(block: pa.RecordBatch) -> pa.RecordBatch:
        odd = [
            pa.array([value] * block.num_rows, kind)
            for value, kind in zip(values, kinds.values(), strict=True)
        ]
        fields = [pa.field(name, kind, nullable=name != "d") for name, kind in kinds.items()]
        return pa.RecordBatch.from_arrays(
            [*odd, block["n"]], schema=pa.schema([*fields, ("n", "int64")])
        )

    batch, _ = run(ArrowTransform(function))
    assert batches.staged(batch, "n, v, l, s, z, d")[3] == (3, *values)


def test_rows_that_the_transform_was_not_given_are_missed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B17: what the readers recorded is compared with what the tasks took."""
    read = SparkExecutor._read
    monkeypatch.setattr(
        SparkExecutor, "_read", lambda *of: {key: rows + 1 for key, rows in read(*of).items()}
    )
    with pytest.raises(RowsNotTransformed) as missed:
        run(ArrowTransform(lambda block: block))
    assert missed.value.read == missed.value.given + 1


def test_no_transform_is_blamed_for_reads_that_are_gone(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G179: a task records them before it returns."""
    monkeypatch.setattr(SparkExecutor, "_read", lambda *_: {})
    with pytest.raises(ReadsLost):
        run(ArrowTransform(lambda block: block))


@pytest.mark.parametrize(("are_gone", "error"), [(True, ReadsLost), (False, RowsNotConsumed)])
def test_a_frame_is_blamed_for_reads_that_are_gone_only_beside_its_rows(
    run: Run, monkeypatch: pytest.MonkeyPatch, are_gone: bool, error: type[TidemarkError]
) -> None:
    """G179: what a fail-over takes back it takes from both."""

    def lost(executor: SparkExecutor, batch: Batch) -> dict[Any, Any]:
        with executor._looking() as cursor:
            if are_gone:
                cursor.execute(f"DELETE FROM {batch.staging.schema}.{batch.staging.rows}")
        return {}

    monkeypatch.setattr(SparkExecutor, "_read", lost)
    with pytest.raises(error):
        run(of_frame)


@pytest.mark.long
def test_every_command_knows_an_arrow_transform(
    world: World, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B17: check and preview without Spark; run, and a proof that calls it again."""
    shipped = executors.spark_executor
    settle_in(world, tmp_path, monkeypatch)
    world.produce(12)
    write_pipeline(world, transform="tests.support.transforms:shout")

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    with monkeypatch.context() as no_spark:
        for name in ("executor.context", "session.context", "executor.spark_executor"):
            no_spark.setattr(f"tidemark.spark.{name}", refused)
        found = {one["check"]: one for one in answer("check", PIPELINE, "--no-spark")["checks"]}
        shown = tidemark("preview", PIPELINE, "--limit", "6").stdout
    assert found["transform"]["fact"].endswith("can be imported: RecordBatch to RecordBatch")
    assert found["output"]["fact"].startswith("5 columns would make"), found["output"]
    assert "6 records read: 4 rows, 2 dropped by the transform, 0 dead letters" in shown

    quick: list[bool] = []

    def started(_: str, *, for_rows: bool, **__: object) -> SparkContext:
        quick.append(not for_rows)
        return spark.sparkContext

    monkeypatch.setattr(executors, "context", started)
    monkeypatch.setattr(executors, "spark_executor", shipped)
    monkeypatch.setattr(SparkExecutor, "close", lambda _: None)  # the module's Spark goes on
    assert answer("run", PIPELINE, "--max-records", "7")["rows"] == 9
    assert answer("verify", PIPELINE)["clean"]
    assert quick == [True, True]
    world.sql("UPDATE public.records SET loud = 'quiet' WHERE kafka_offset = 3")
    assert "altered" in tidemark("verify", PIPELINE, exits=1).stdout
    write_pipeline(world, transform="tests.support.transforms:shout", transform_kind="dataframe")
    told = tidemark("check", PIPELINE, "--no-spark", exits=1).stdout
    assert "transform_kind is dataframe" in " ".join(told.split())


@pytest.mark.long
def test_a_transform_that_becomes_slow_in_mid_run_fails_nobody(
    world: World, kept_spark: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G131: a batch as large as easy records allow takes twice no_progress_seconds.

    A block of 10,000 records takes 10 s, a third of what may pass without progress.
    """
    monkeypatch.setattr(world, "executor_of", executors.spark_executor)
    world.settings = {
        "transform": "tests.support.transforms:slow_later",
        "no_progress_seconds": 30,
    }
    world.produce(115_000)
    world.produce(50_000, 1)
    world.begin("run", world.pipeline.bounds())
    members = [world.member(slot) for slot in (1, 2)]
    assert sum(member.result(600).rows for member in members) == 165_000
    assert world.close().rows == 165_000
    [(slowest,)] = world.sql("SELECT max(drain_seconds) FROM tidemark.batches")
    assert slowest > 2 * 30
