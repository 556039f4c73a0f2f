"""A batch through Spark: what counts is exactly what the spans hold, whatever fails meanwhile."""

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pyarrow as pa
import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.support.batches import Batches, document, documents
from tests.support.damage import DEADLY, HEADER, fill, stored_batches
from tests.support.processes import family, kill, stopped
from tests.support.produce import produce
from tests.support.roles import RoleWorld
from tests.support.waiting import until
from tests.support.world import World

from tidemark.errors import StagingLost, TargetRefused, error_as_dict
from tidemark.failpoints import VARIABLE
from tidemark.kafka.errors import CorruptRange
from tidemark.model.batch import ONLY, Attempt, Batch
from tidemark.model.offsets import Span
from tidemark.postgres.errors import StagingDiscarded
from tidemark.settings.fields import arrow_schema
from tidemark.spark.errors import (
    SparkJobCancelled,
    SparkJobFailed,
    TransformColumnsVary,
    TransformRaised,
    TransformReturnedOther,
)
from tidemark.spark.executor import SparkExecutor, spark_executor
from tidemark.spark.reader import ReadSpec
from tidemark.spark.session import retrying
from tidemark.spark.source import source
from tidemark.spark.specs import JobSpec
from tidemark.spark.transform import ArrowTransform, Transform
from tidemark.staging._row_errors import ValueUnstorable
from tidemark_local.stack import LocalStack

pytestmark = pytest.mark.spark

Topic = Callable[..., str]
Drained = tuple[Batch, list[Attempt]]
Ready = Callable[..., tuple[SparkExecutor, Batch]]


@pytest.fixture
def ready(spark: SparkSession, batches: Batches) -> Ready:
    """Makes an executor, and a batch of these spans for it to drain."""

    def made(
        spans: Sequence[Span], transform: Transform | None, spec: ReadSpec | None = None
    ) -> tuple[SparkExecutor, Batch]:
        executor = SparkExecutor(spec or batches.spec(), transform, lambda: spark.sparkContext)
        return executor, batches.new(spans, executor.output_schemas())

    return made


@pytest.fixture
def run(ready: Ready) -> Callable[..., Drained]:
    def drained(spans: Sequence[Span], transform: Transform | None = identity) -> Drained:
        executor, batch = ready(spans, transform)
        return batch, executor.drain(batch, spans)

    return drained


def identity(rows: DataFrame) -> DataFrame:
    return rows


ARROW = ArrowTransform(lambda rows: rows)

KINDS = {identity: "transform", None: "no-transform", ARROW: "arrow"}
with_each_kind_of_transform = pytest.mark.parametrize("transform", KINDS, ids=KINDS.get)
with_one_kind_of_transform = pytest.mark.parametrize(
    "transform",
    [identity, *(pytest.param(kind, marks=pytest.mark.long) for kind in (None, ARROW))],
    ids=KINDS.get,
)


@with_each_kind_of_transform
def test_every_record_is_staged_once_by_the_winners(
    transform: Transform | None,
    kafka: str,
    topic: Topic,
    batches: Batches,
    run: Callable[..., Drained],
) -> None:
    name = topic(partitions=3)
    for partition in range(3):
        produce(kafka, name, [*documents(5, 100 * partition), b"bad"], partition)
    spans = [Span(name, partition, 1, 6) for partition in range(3)]
    batch, winners = run(spans, transform)
    expected = [100 * partition + n for partition in range(3) for n in range(1, 5)]
    assert batches.numbers(batch, winners) == expected
    assert sum(winner.rows.get(ONLY, 0) for winner in winners) == 12
    assert [(p, start, end, *counts) for p, start, end, _, *counts in batches.reads(batch)] == [
        (partition, 1, 6, 5, 1) for partition in range(3)
    ]
    assert len(batches.dead_letters(batch)) == 3


@pytest.mark.long
@with_each_kind_of_transform
def test_metadata_and_nested_fields_are_staged(
    transform: Transform | None, kafka: str, topic: Topic, batches: Batches, ready: Ready
) -> None:
    name = topic()
    values = [b'{"l":["2024-02-29T12:00:00Z",null],"s":{"d":"2024-02-29"}}', b'{"s":null}']
    produce(kafka, name, values)
    fields = arrow_schema({"l": "array<timestamp>", "s": "struct<d:date>"})
    spec = batches.spec("key", "timestamp", "headers", fields=fields)
    span = Span(name, 0, 0, 2)
    executor, batch = ready([span], transform, spec)
    (winner,) = executor.drain(batch, [span])
    assert winner.rows == {ONLY: 2}
    assert batches.staged(batch, "kafka_offset, l, s") == [
        (0, [datetime.fromisoformat("2024-02-29T12:00"), None], {"d": "2024-02-29"}),
        (1, None, None),
    ]


def test_a_transform_may_shuffle(
    kafka: str, topic: Topic, batches: Batches, run: Callable[..., Drained]
) -> None:
    name = topic(partitions=2)
    for partition in (0, 1):
        produce(kafka, name, documents(50, 50 * partition), partition)
    batch, winners = run(
        [Span(name, 0, 0, 50), Span(name, 1, 0, 50)],
        lambda rows: rows.repartition(3, "n").sort("n").withColumn("twice", F.col("n") * 2),
    )
    assert sorted(batches.numbers(batch, winners)) == list(range(100))
    readers = {read[3] for read in batches.reads(batch)}
    assert readers.isdisjoint(winner.attempt for winner in winners)


READER = ["read.before", "read.middle", "read.staged", "read.after"]
WRITER = ["stage.before", "stage.copy", "stage.commit", "stage.after"]
ALWAYS = {
    identity: ("read.staged",),
    None: (),
    ARROW: (),
}
"""Points of the reader and of the writer; the second tier tries every one."""


@pytest.mark.parametrize(
    ("transform", "point"),
    [
        pytest.param(kind, point, marks=() if point in ALWAYS[kind] else pytest.mark.long)
        for kind in KINDS
        for point in READER + WRITER
    ],
    ids=lambda value: KINDS.get(value, value),
)
def test_a_killed_worker_leaves_only_the_winners_rows(
    point: str,
    transform: Transform | None,
    spark: SparkSession,
    kafka: str,
    topic: Topic,
    batches: Batches,
    ready: Ready,
) -> None:
    name = topic()
    produce(kafka, name, [*documents(200), b"bad"])
    span = Span(name, 0, 0, 201)
    executor, batch = ready([span], transform)
    with workers_stop_at(spark, point), ThreadPoolExecutor(1) as thread:
        job = thread.submit(executor.drain, batch, [span])
        first = stopped_worker(job)
        first.kill()
        stopped_worker(job, besides=first).send_signal(
            signal.SIGCONT
        )  # the second attempt gets through
        winners = job.result(120)
    assert batches.numbers(batch, winners) == list(range(200))
    assert sum(winner.rows.get(ONLY, 0) for winner in winners) == 200
    assert (batches.attempts(batch) - {winner.attempt for winner in winners} != set()) == (
        point == "stage.after"
    )
    assert all(read[1:3] == (0, 201) and read[4:] == (201, 1) for read in batches.reads(batch))
    assert len(batches.dead_letters(batch)) == len(batches.reads(batch)) >= 1


@pytest.mark.long
@with_one_kind_of_transform
def test_a_job_whose_workers_die_on_every_try_says_so(
    transform: Transform | None,
    spark: SparkSession,
    kafka: str,
    topic: Topic,
    run: Callable[..., Drained],
) -> None:
    name = topic()
    produce(kafka, name, documents(2))
    with failpoints(spark, "read.middle=kill"), pytest.raises(SparkJobFailed) as caught:
        run([Span(name, 0, 0, 2)], transform)
    assert caught.value.is_of_dead_worker


class KeptSpark(SparkExecutor):
    """An executor that leaves the module's Spark running."""

    def close(self) -> None: ...


@pytest.mark.long
def test_a_batch_that_kills_the_workers_ends_the_run_with_its_range(
    spark: SparkSession, world: World, stack: LocalStack
) -> None:
    """B16: the client's own assertion fails; the range that it names can be left out."""

    def executor_of(spec: JobSpec) -> KeptSpark:
        return KeptSpark(spec.reading, None, lambda: spark.sparkContext)

    world.settings = {"decode": {"format": "raw", "schema": {}}}
    fill(world.kafka, world.topic, value=DEADLY)
    world.run("before it", max_records=20, max_batches=1)
    stored_batches(stack, world.topic)[2].flip(HEADER["checksum"])
    world.open()
    with pytest.raises(CorruptRange) as caught:
        world.join("run", "m1", executor_of, 1)
    assert caught.value.span == Span(world.topic, 0, 20, 30)
    assert isinstance(caught.value.__cause__, SparkJobFailed)
    world.reset()
    world.overrides = (f"accept_corrupt {caught.value.span}",)
    world.open("told")
    world.join("told", "m1", executor_of, 1)
    assert world.rows() == [(0, n) for n in (*range(20), *range(30, 40))]


SHUFFLES = [
    "spark.sql.execution.sortBeforeRepartition",
    "spark.sql.shuffle.orderIndependentChecksum.enabled",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch",
]
SHOWN = """
import sys
from tidemark.spark.session import context
conf = context("fixed").getConf()
print([conf.get(name) for name in sys.argv[1:]])
"""


@pytest.mark.long
def test_no_default_of_a_platform_lets_a_shuffle_lose_rows(tmp_path: Path) -> None:
    """G148: of a stage that is computed again, rows may go elsewhere: to tasks that are done."""
    settings = [f"{name} false\n" for name in SHUFFLES]
    (tmp_path / "spark-defaults.conf").write_text("".join(settings))
    told = subprocess.run(
        [sys.executable, "-c", SHOWN, *SHUFFLES],
        env=os.environ | {"SPARK_CONF_DIR": str(tmp_path)},
        cwd=tmp_path, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert told.splitlines()[-1] == str(["true"] * 3)


def test_what_a_shuffle_writes_no_other_account_can_read(spark: SparkSession) -> None:
    """G138: a local master encrypts nothing of it."""
    folder = Path(spark.conf.get("spark.local.dir") or "")
    assert spark.range(100).repartition(3).count() == 100
    assert [*folder.glob("blockmgr-*/*/shuffle_*.data")]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.long
def test_tasks_stage_by_a_login_that_can_do_nothing_else(
    kept_spark: None, role_world: RoleWorld
) -> None:
    """G127: what they have staged the driver looks at by its own."""
    world = role_world
    world.settings["transform"] = "tests.support.transforms:shout"
    world.sql("ALTER TABLE public.flights ADD COLUMN loud text")
    world.produce(5)
    world.open()
    world.join("run", "m1", spark_executor)
    assert world.close().rows == 4


@contextmanager
def failpoints(spark: SparkSession, rules: str) -> Iterator[None]:
    """In workers of this use alone: one that has met its failpoint does not meet it again."""
    environment = spark.sparkContext.environment
    environment |= {VARIABLE: rules, "USE": uuid4().hex}
    try:
        yield
    finally:
        del environment[VARIABLE], environment["USE"]


@contextmanager
def workers_stop_at(spark: SparkSession, point: str) -> Iterator[None]:
    try:
        with failpoints(spark, f"{point}=stop"):
            yield
    finally:
        for worker in stopped(family(os.getpid())):
            kill(worker)


def stopped_worker(job: "Future[Any]", besides: psutil.Process | None = None) -> psutil.Process:
    """A worker that has reached the failpoint."""
    found: list[psutil.Process] = []

    def one_has() -> bool:
        assert not job.done(), job.result()
        found[:] = [one for one in stopped(family(os.getpid())) if one != besides]
        return bool(found)

    until(one_has, pause=0.02)
    return found[0]


@pytest.mark.long
def test_a_value_that_postgres_refuses_comes_out_as_what_it_is(
    kafka: str, topic: Topic, run: Callable[..., Drained]
) -> None:
    name = topic()
    produce(kafka, name, documents(2))
    with pytest.raises(TargetRefused) as refused:
        run([Span(name, 0, 0, 2)], lambda rows: rows.withColumn("text", F.lit("a\0b")))
    unstorable = ValueUnstorable(
        record=f"{name}[0]@0",
        column="text",
        sqlstate="22021",
        condition="CHARACTER_NOT_IN_REPERTOIRE",
    )
    assert error_as_dict(refused.value) == error_as_dict(unstorable)


@pytest.mark.long
@with_one_kind_of_transform
def test_a_discarded_batch_comes_out_as_what_it_is(
    transform: Transform | None, kafka: str, topic: Topic, batches: Batches, ready: Ready
) -> None:
    name = topic()
    produce(kafka, name, documents(2))
    span = Span(name, 0, 0, 2)
    executor, batch = ready([span], transform)
    batches.drop(batch)
    with pytest.raises(StagingLost) as lost:
        executor.drain(batch, [span])
    assert str(lost.value) == str(StagingDiscarded())


def fails_in_a_worker(rows: DataFrame) -> DataFrame:
    def broken(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in parts:
            raise ValueError(f"cannot digest {part.num_rows} rows")
            yield part

    return rows.mapInArrow(broken, rows.schema)


def fails_in_the_jvm(rows: DataFrame) -> DataFrame:
    return rows.withColumn("n", F.raise_error(F.lit("n is odd")).cast("bigint"))


def fails_in_the_driver(rows: DataFrame) -> DataFrame:
    if os.environ:
        raise KeyError("no such table")
    return rows


def fails_in_the_plan(rows: DataFrame) -> DataFrame:
    return rows.select("no_such_column")


@pytest.mark.parametrize(
    ("transform", "what", "where"),
    [
        (fails_in_a_worker, "ValueError: cannot digest 2 rows", ", in broken)"),
        pytest.param(fails_in_the_jvm, "n is odd", "", marks=pytest.mark.long),
        pytest.param(
            fails_in_the_plan,
            "`no_such_column` cannot be resolved",
            ", in fails_in_the_plan)",
            marks=pytest.mark.long,
        ),
        pytest.param(
            fails_in_the_driver,
            "KeyError: 'no such table'",
            ", in fails_in_the_driver)",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_failing_transform_is_told_in_one_paragraph(
    transform: Transform,
    what: str,
    where: str,
    kafka: str,
    topic: Topic,
    run: Callable[..., Drained],
) -> None:
    name = topic()
    produce(kafka, name, documents(2))
    with pytest.raises(TransformRaised) as caught:
        run([Span(name, 0, 0, 2)], transform)
    assert what in caught.value.cause
    assert caught.value.cause.endswith(where)
    assert "\n" not in str(caught.value)
    assert "org.apache.spark" not in str(caught.value)
    assert len(str(caught.value)) < 1500


def test_a_transform_must_return_a_frame(spark: SparkSession, batches: Batches) -> None:
    executor = SparkExecutor(batches.spec(), lambda rows: rows.columns, lambda: spark.sparkContext)
    with pytest.raises(TransformReturnedOther) as refused:
        executor.output_schemas()
    assert (refused.value.returned, refused.value.wanted) == ("list", "DataFrame")


@pytest.mark.long
def test_other_columns_than_at_the_start_are_refused(
    kafka: str, topic: Topic, run: Callable[..., Drained]
) -> None:
    name, calls = topic(), []

    def fickle(rows: DataFrame) -> DataFrame:
        calls.append(1)
        return rows.withColumn(f"c{len(calls)}", F.lit(1))

    produce(kafka, name, [document(0)])
    with pytest.raises(TransformColumnsVary) as refused:
        run([Span(name, 0, 0, 1)], fickle)
    assert {*refused.value.found} ^ {*refused.value.at_start} == {
        "c1 int32 not null",
        "c2 int32 not null",
    }


def test_a_job_is_cancelled_from_another_thread(
    spark: SparkSession, kafka: str, topic: Topic, batches: Batches, ready: Ready
) -> None:
    name = topic()
    produce(kafka, name, documents(2))
    span = Span(name, 0, 0, 2)

    def slow(rows: DataFrame) -> DataFrame:
        def sleep(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            time.sleep(300)
            yield from parts

        return rows.mapInArrow(sleep, rows.schema)

    executor, batch = ready([span], slow)
    with ThreadPoolExecutor(1) as thread:
        job = thread.submit(executor.drain, batch, [span])
        until(lambda: job.done() or spark.sparkContext.statusTracker().getActiveJobsIds())
        executor.cancel()
        with pytest.raises(SparkJobCancelled):
            job.result(120)
    with pytest.raises(SparkJobCancelled):
        executor.drain(batch, [span])
    assert batches.attempts(batch) == set()


@pytest.mark.long
def test_a_job_without_a_transform_is_cancelled_in_the_middle_of_a_read(
    spark: SparkSession, kafka: str, topic: Topic, batches: Batches, ready: Ready
) -> None:
    name = topic()
    produce(kafka, name, documents(2))
    span = Span(name, 0, 0, 2)
    executor, batch = ready([span], None)
    with workers_stop_at(spark, "read.middle"), ThreadPoolExecutor(1) as thread:
        job = thread.submit(executor.drain, batch, [span])
        stopped_worker(job)
        executor.cancel()
        with pytest.raises(SparkJobCancelled):
            job.result(120)
    assert (batches.reads(batch), batches.attempts(batch)) == ([], set())


def test_the_columns_are_known_without_a_job(spark: SparkSession, batches: Batches) -> None:
    spec = replace(batches.spec("timestamp"), kafka={"bootstrap.servers": "127.0.0.1:1"})
    executor = SparkExecutor(
        spec,
        lambda rows: rows.select("kafka_timestamp", F.array("n").alias("ns")),
        lambda: spark.sparkContext,
    )
    schema = executor.output_schemas()[ONLY]
    assert schema.field("kafka_timestamp").type == pa.timestamp("us", "UTC")
    assert schema.field("ns").type.value_type == pa.int64()


def test_spark_starts_only_when_needed(batches: Batches) -> None:
    def start() -> SparkContext:
        raise AssertionError("Spark was started")

    executor = SparkExecutor(batches.spec(), identity, start)
    executor.cancel()
    executor.close()


def test_no_secret_reaches_spark(
    spark: SparkSession, kafka: str, topic: Topic, batches: Batches
) -> None:
    name = topic()
    produce(kafka, name, documents(1))
    secrets = {"sasl.password": "hush-kafka"}
    spec = replace(
        batches.spec(),
        kafka={"bootstrap.servers": kafka, **secrets},
        postgres=batches.warehouse | {"password": "hush-postgres"},
    )
    with source(spark, spec, [Span(name, 0, 0, 1)], "hush-token", keeps=True) as frame:
        assert frame.count() == 1
        seen = [
            str(spark.sparkContext.getConf().getAll()),
            str(spark.conf.getAll),
            frame._jdf.queryExecution().toString(),
            frame._jdf.queryExecution().analyzed().prettyJson(),
            repr(spec),
        ]
    assert all("hush" not in text for text in seen)


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("local", "local[1,3]"),
        ("local[2]", "local[2,3]"),
        ("local[*]", "local[*,3]"),
        ("local[2,1]", "local[2,1]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_a_local_master_tries_a_task_again(given: str, used: str) -> None:
    assert retrying(given) == used
