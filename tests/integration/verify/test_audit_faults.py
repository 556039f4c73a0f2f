"""Audit names each of 10,000 planted faults of each kind, in tables that four peers have written.

The peers are those of `make bench`, and an upsert by key as a sink of Kafka Connect makes it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from scripts.bench.paths import jars
from scripts.bench.usage import ROOT
from tests.support.filled import copied
from tests.support.world import World

from tidemark.model.offsets import TopicPartition
from tidemark.verify.audit import AuditQuestion, audit
from tidemark.verify.report import AuditReport
from tidemark_local.stack import LocalStack

pytestmark = pytest.mark.long

RECORDS = 100_000
PLANTED = RECORDS // 10
KEYS = RECORDS // 2
SCHEMA = {"id": "int", "key": "int", "name": "string", "at": "timestamp"}
COORDINATES = ", kafka_topic text, kafka_partition int, kafka_offset bigint"


@pytest.fixture
def warehouse(stack: LocalStack) -> Iterator[dict[str, Any]]:
    """A database without a ledger."""
    with copied(stack) as parameters:
        yield parameters


@pytest.fixture
def full(world: World) -> World:
    """A topic of two partitions: record n has offset n // 2. Each key has two records."""
    world.settings = {"decode": {"schema": SCHEMA}, "target": {"table": "public.peer"}}
    producer = Producer({"bootstrap.servers": world.kafka, "enable.idempotence": True})
    for n in range(RECORDS):
        value = {
            "id": n,
            "key": n % KEYS,
            "name": f"name {n}",
            "at": f"2026-01-01T00:00:{n % 60:02d}Z",
        }
        producer.produce(world.topic, json.dumps(value), partition=n % 2)
        producer.poll(0)
    assert producer.flush(120) == 0
    world.sql(f"CREATE TABLE public.peer (id int, key int, name text, at timestamptz{COORDINATES})")
    return world


def by(script: str, world: World, folder: Any) -> None:
    """The table is written by a peer of `make bench`."""
    job = {
        "bootstrap": world.kafka,
        "topic": world.topic,
        "schema": SCHEMA,
        "transform": False,
        "batch": 30_000,
        "table": "peer",
        "postgres": world.warehouse,
        "cores": 2,
        "folder": str(folder / "checkpoints"),
        "jars": jars() if script != "consumer_peer" else [],
    }
    own = {"PEER_JOB": json.dumps(job), "PYTHONPATH": str(ROOT), "SPARK_LOCAL_DIRS": str(folder)}
    argv = [sys.executable, "-m", f"scripts.bench.{script}"]
    subprocess.run(argv, env={**os.environ, **own}, cwd=ROOT, check=True, capture_output=True)


def audited(world: World, *, until_end: bool = False) -> AuditReport:
    ends = {TopicPartition(world.topic, number): RECORDS // 2 for number in range(2)}
    question = AuditQuestion(until=ends if until_end else None, limit=RECORDS)
    return audit(world.pipeline, world.connections, question, spark=lambda: pytest.fail("Spark"))


def places(world: World, numbers: range) -> set[str]:
    return {f"{world.topic}[{n % 2}]@{n // 2}" for n in numbers}


def named(report: AuditReport) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for one in report.differences:
        found.setdefault(str(one.kind), set()).add(one.where)
    return found


LOST, DOUBLED, ALTERED, STALE = (range(rest, RECORDS, 10) for rest in range(4))


def plant(world: World) -> None:
    """10,000 faults of each kind that a table of appended rows can have."""
    world.sql("DELETE FROM public.peer WHERE id % 10 = 0")
    world.sql("INSERT INTO public.peer SELECT * FROM public.peer WHERE id % 10 = 1")
    world.sql("UPDATE public.peer SET at = at + interval '1 microsecond' WHERE id % 10 = 2")


@pytest.mark.parametrize("script", ["consumer_peer", "stream_peer", "spark_peer"])
def test_all_planted_faults_are_named_by_their_records(
    full: World, script: str, tmp_path: Any
) -> None:
    """B28: by a consumer by hand, foreachBatch and write.jdbc."""
    by(script, full, tmp_path)
    clean = audited(full)
    assert (clean.wrong, clean.rows, clean.differences) == (0, RECORDS, ())
    plant(full)
    full.sql(
        "INSERT INTO public.peer SELECT id, key, name, at, kafka_topic, kafka_partition,"
        f" kafka_offset + {RECORDS} FROM public.peer WHERE id % 10 = 3"
    )
    report = audited(full)
    found = named(report)
    assert found.pop("foreign") == {f"{full.topic}[{n % 2}]@{n // 2 + RECORDS}" for n in STALE}
    kinds = {"lost": LOST, "doubled": DOUBLED, "altered": ALTERED}
    assert found == {kind: places(full, numbers) for kind, numbers in kinds.items()}
    assert report.wrong == 4 * PLANTED


def test_all_planted_faults_are_named_where_no_row_tells_its_record(
    full: World, tmp_path: Any
) -> None:
    by("spark_peer", full, tmp_path)
    full.sql("ALTER TABLE public.peer DROP kafka_topic, DROP kafka_partition, DROP kafka_offset")
    assert audited(full, until_end=True).wrong == 0
    plant(full)
    kinds = {"lost": LOST, "doubled": DOUBLED, "altered": ALTERED}
    report = audited(full, until_end=True)
    assert named(report) == {kind: places(full, numbers) for kind, numbers in kinds.items()}
    assert report.wrong == 3 * PLANTED


def test_all_planted_faults_of_keys_are_named(full: World) -> None:
    """A sink of Kafka Connect upserts; its table has no unique index any more."""
    full.settings["target"] |= {"mode": "upsert", "key": ["key"]}
    full.sql("ALTER TABLE public.peer DROP kafka_topic, DROP kafka_partition, DROP kafka_offset")
    rows = (
        f"INSERT INTO public.peer SELECT n, n %% {KEYS}, 'name ' || n, '2026-01-01Z'::timestamptz"
        " + interval '1s' * (n %% 60) FROM generate_series(%s, %s, %s) AS n"
    )
    full.sql(rows, [KEYS, RECORDS - 1, 1])
    assert audited(full, until_end=True).wrong == 0
    each = KEYS // PLANTED
    lost, doubled, altered, stale = (range(KEYS + rest, RECORDS, each) for rest in range(4))
    full.sql(f"DELETE FROM public.peer WHERE id % {each} IN (0, 3)")
    full.sql(rows, [3, KEYS - 1, each])
    full.sql(f"INSERT INTO public.peer SELECT * FROM public.peer WHERE id % {each} = 1")
    full.sql(f"UPDATE public.peer SET name = name || ' ' WHERE id % {each} = 2")
    report = audited(full, until_end=True)
    kinds = {"lost": lost, "doubled": doubled, "altered": altered, "stale": stale}
    assert named(report) == {kind: places(full, numbers) for kind, numbers in kinds.items()}
    assert report.wrong == 4 * PLANTED
