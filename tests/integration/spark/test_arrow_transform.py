"""B17: a batch through an Arrow transform, and both kinds side by side."""

import sys
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import jobs.flights
import jobs.flights_arrow
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.support.batches import Batches, Run
from tests.support.commands import PIPELINE, answer, settle_in, tidemark, write_pipeline
from tests.support.transforms import fails, of_arrow
from tests.support.world import World

from tidemark.errors import InvalidSettings, SchemaMismatch, TidemarkError, TransformFailed
from tidemark.model.batch import ONLY
from tidemark.settings.fields import arrow_schema
from tidemark.settings.pipeline import Pipeline
from tidemark.spark import executor as executors
from tidemark.spark.errors import (
    RowsNotTransformed,
    TransformColumnsVary,
    TransformRaised,
    TransformReturnedOther,
)
from tidemark.spark.executor import SparkExecutor
from tidemark.spark.records import row_schema
from tidemark.spark.source import wire_schema
from tidemark.spark.testing import assert_cuts_change_nothing
from tidemark.spark.transform import ArrowTransform

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[3]


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


@pytest.mark.parametrize(("times", "rows"), [(0, 0), (3, 36)])
def test_no_rows_and_more_rows_than_records_are_staged(
    times: int, rows: int, run: Run, batches: Batches
) -> None:
    """B17: filter and explode."""

    def function(block: pa.RecordBatch) -> pa.RecordBatch:
        return block.take(pa.array(list(range(block.num_rows)) * times, pa.int64()))

    batch, winners = run(ArrowTransform(function))
    assert sum(winner.rows.get(ONLY, 0) for winner in winners) == rows
    assert batches.numbers(batch, winners) == sorted([*range(12)] * times)


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


@pytest.mark.parametrize(
    ("function", "kind", "case"),
    [
        (fails, TransformFailed, TransformRaised),
        pytest.param(
            lambda block: None if block.num_rows else block,
            InvalidSettings,
            TransformReturnedOther,
            marks=pytest.mark.long,
        ),
        (
            lambda block: block.drop_columns(["text"]) if block.num_rows else block,
            SchemaMismatch,
            TransformColumnsVary,
        ),
    ],
)
def test_what_a_transform_does_wrong_in_a_task_comes_out_as_what_it_is(
    function: Any, kind: type[TidemarkError], case: type[TidemarkError], run: Run
) -> None:
    """B17: a transform that raised, with its place."""
    with pytest.raises(kind) as caught:
        run(ArrowTransform(function))
    assert caught.value.case == case.__name__
    assert len(str(caught.value)) < 1000
    assert (", in fails)" in str(caught.value.fields().get("cause"))) == (function is fails)


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


def test_a_module_that_workers_cannot_import_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B17: the function travels by its name."""
    name = f"alone_{uuid4().hex[:8]}"
    (tmp_path / f"{name}.py").write_text("def transform(block):\n    return block\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setitem(sys.modules, name, module := import_module(name))
    function = module.transform
    with pytest.raises(TransformRaised) as failed:
        run(ArrowTransform(function))
    assert failed.value.cause == f"ModuleNotFoundError: No module named '{name}'"


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


FLIGHTS = Pipeline.load(ROOT / "dags" / "flights.yaml")
FLIGHT = wire_schema(row_schema(arrow_schema(FLIGHTS.decode.declared), ()))
ODD: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int32(): st.integers(-(2**31), 2**31 - 1) | st.sampled_from([0, 15, 16, 3125, 500_000]),
    pa.int64(): st.integers(0, 2**40),
    pa.string(): st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(UTC)),
}
ROWS = st.lists(
    st.fixed_dictionaries({field.name: st.none() | ODD[field.type] for field in FLIGHT}),
    min_size=1,
    max_size=40,
).map(lambda rows: pa.RecordBatch.from_pylist(rows, schema=FLIGHT))


@settings(
    max_examples=8,
    phases=[Phase.generate],  # each example is a job
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(flights=ROWS)
def test_the_example_in_both_kinds_makes_the_same_of_any_flight(
    spark: SparkSession, flights: pa.RecordBatch
) -> None:
    """B17: every bit of every row, also of odd ones."""
    made = jobs.flights_arrow.transform(flights)
    frame = jobs.flights.transform(spark.createDataFrame(pa.table(flights)))
    assert frame.toArrow().cast(made.schema).equals(pa.table(made))
    assert_cuts_change_nothing(jobs.flights_arrow.transform, flights, tries=3)
