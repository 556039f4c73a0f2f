"""Batches that are read again together: as strict as one by one, and each fault has its batch."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.batch_faults import FAULTS
from tests.support.executor import BAD, LocalExecutor
from tests.support.filled import copied
from tests.support.produce import good, numbered, produce, produce_transaction
from tests.support.said import said
from tests.support.topics import create_topic
from tests.support.world import World

from tidemark.errors import DataLost
from tidemark.model.batch import Batch
from tidemark.model.offsets import Span
from tidemark.spark.specs import JobSpec
from tidemark.verify import _comparison
from tidemark.verify.report import Kind, Report
from tidemark.verify.verify import verify
from tidemark_local.stack import LocalStack

BATCHES = 8
REFUSED = "refused"
SOME = {"altered", "letter altered", "letters counted in another span"}
"""Faults of rows, dead letters, refused records and counts."""
SETTINGS = {"target": {"table": "public.records", "on_refused": "dead_letter"}}


def lost_at(offset: int) -> Callable[[LocalExecutor, Batch, Sequence[Span]], None]:
    """A hook: Kafka lacks this offset of partition 0."""

    def lose(executor: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
        if any(span.partition == 0 and span.start <= offset < span.end for span in spans):
            raise said(DataLost, "as the test wants it")

    return lose


@pytest.fixture(scope="module")
def drained(kafka: str, admin: AdminClient, stack: LocalStack) -> Iterator[World]:
    """Eight batches with three records of each of two partitions.

    In each batch but the last a record can't be decoded, and the target refuses another.
    """
    name = f"groups_{uuid.uuid4().hex[:12]}"
    create_topic(admin, NewTopic(name, 2, 1))
    for n in range(BATCHES):
        bad = n < BATCHES - 1
        texts = numbered(2, 100 * n)
        produce(kafka, name, [*texts, BAD if bad else good("last")], 0)
        produce(kafka, name, [good(REFUSED if bad else "end"), *numbered(2, 100 * n + 50)], 1)
    with copied(stack) as parameters:
        world = World(kafka, parameters, name, name, settings=dict(SETTINGS))
        world.sql(
            "CREATE TABLE public.records (value text CHECK (value <> 'refused'), kafka_topic text,"
            " kafka_partition int, kafka_offset bigint, batch_seq bigint NOT NULL)"
        )
        world.run(max_records=6)
        assert world.sql("SELECT count(*) FROM tidemark.batches") == [(BATCHES,)]
        yield world
    admin.delete_topics([name])[name].exception(120)


@pytest.fixture
def many(drained: World, stack: LocalStack) -> Iterator[World]:
    """The same in a copy of its database, for a test to doctor."""
    with copied(stack, template=drained.warehouse["dbname"]) as parameters:
        yield replace(drained, warehouse=parameters, executors=[], settings=dict(SETTINGS))


def proven(world: World, monkeypatch: pytest.MonkeyPatch, *, alone: bool = False) -> Report:
    """The report, also with a job for each batch."""
    world.executors.clear()
    with monkeypatch.context() as patch:
        if alone:
            patch.setattr(_comparison, "RECORDS", 0)
        return verify(world.pipeline, world.connections, executor_of=world.executor_of)


def found(report: Report) -> set[tuple[int, Kind, str]]:
    return {(b.seq, one.kind, one.what) for b in report.batches for one in b.differences}


@pytest.mark.long
def test_small_batches_are_proven_by_one_job(many: World, monkeypatch: Any) -> None:
    report = proven(many, monkeypatch)
    assert (many.jobs, report.wrong) == (1, 0)
    assert report == proven(many, monkeypatch, alone=True)
    assert (many.jobs, {b.verdict for b in report.batches}) == (BATCHES, {"equal"})
    assert many.sql("SELECT 1 FROM pg_tables WHERE schemaname = 'tidemark_staging'") == []


@pytest.mark.parametrize(
    "fault", [one if one in SOME else pytest.param(one, marks=pytest.mark.long) for one in FAULTS]
)
def test_each_fault_has_its_batch_and_its_name(
    fault: str, many: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B5: the same report as from a job for each batch, by fewer jobs."""
    statement, named = FAULTS[fault]
    many.sql(statement)
    report = proven(many, monkeypatch)
    jobs = many.jobs
    assert found(report) == named
    assert report == proven(many, monkeypatch, alone=True)
    assert jobs < many.jobs or report.batches[3].wrong


class Unsure(LocalExecutor):
    """Rows may depend on other records of the batch."""

    def is_by_record(self) -> bool:
        return False


@pytest.mark.long
def test_a_transform_that_looks_at_several_records_is_proven_batch_by_batch(many: World) -> None:
    executors: list[Unsure] = []

    def unsure(spec: JobSpec) -> Unsure:
        executors.append(Unsure(spec))
        return executors[0]

    assert verify(many.pipeline, many.connections, executor_of=unsure).wrong == 0
    assert len(executors[0].drained) == BATCHES


@pytest.mark.parametrize(
    "fault",
    [
        None,
        pytest.param("in another batch", marks=pytest.mark.long),
        pytest.param("records counted in another batch", marks=pytest.mark.long),
    ],
)
def test_with_a_transform_too(
    fault: str | None, many: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then rows tell nothing of the number of records: only a record at every offset does."""
    many.settings["transform"] = "left.out:here"
    many.sql(FAULTS[fault][0] if fault else "SELECT 1")
    report = proven(many, monkeypatch)
    assert (many.jobs == 1) == (fault is None)
    assert report == proven(many, monkeypatch, alone=True)
    assert found(report) == (FAULTS[fault][1] if fault else set())


@pytest.mark.long
@pytest.mark.parametrize(("transform", "jobs"), [(None, 1), ("left.out:here", 3)])
def test_offsets_without_a_record_join_only_where_rows_tell_the_counts(
    transform: str | None, jobs: int, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction's marker takes an offset."""
    for n in range(3):
        produce_transaction(world.kafka, world.topic, numbered(2, 10 * n), 0)
    world.run(max_records=3)
    world.settings["transform"] = transform
    assert [b.verdict for b in proven(world, monkeypatch).batches] == ["equal"] * 3
    assert world.jobs == jobs


def test_what_kafka_loses_meanwhile_is_not_verifiable_and_the_rest_is_proven(
    many: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    many.before = lost_at(10)
    report = proven(many, monkeypatch)
    verdicts = [b.verdict for b in report.batches]
    assert verdicts == [*["equal"] * 3, "not verifiable", *["equal"] * 4]
    assert report.batches[3].unverifiable == ("as the test wants it",)
