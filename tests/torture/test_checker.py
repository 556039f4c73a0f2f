"""What the torture looks with: each doctored target, offset, journal and output is noticed."""

from collections.abc import Callable
from time import time
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient
from tests.support.produce import produce
from tests.support.topics import move_group
from tests.torture.journal import Acked, Journal
from tests.torture.regions import IdRegion, TorturedRegion
from tests.torture.sampler import ahead, incomplete, partly

RECORDS = 40
A_ROW = "(SELECT min(ctid) FROM public.numbers)"


@pytest.fixture
def region(
    kafka: str, warehouse: dict[str, Any], topic: Callable[..., str], group: str
) -> IdRegion:
    """A region that has drained what a producer was told that Kafka has."""
    made = IdRegion(kafka, warehouse, topic(partitions=2), group, direct=warehouse)
    for partition in (0, 1):
        produce(kafka, made.topic, [b"1.%d" % n for n in range(RECORDS)], partition)
    made.run()
    return made


@pytest.fixture
def journal() -> Journal:
    """What the producer was told."""
    made = Journal()
    for partition in (0, 1):
        for n in range(RECORDS):
            made.add(Acked(partition, n, f"1.{n}"), 0)
    return made


def test_what_is_as_it_must_be_is_no_finding(region: IdRegion, journal: Journal) -> None:
    assert region.faults_found() == []
    assert region.lost_of(journal.acked) == []
    assert list(ahead(region, region.group)) == []
    assert list(partly(region)) == []
    assert list(incomplete(region, journal)) == []


@pytest.mark.parametrize(
    ("doctored", "found"),
    [
        (f"DELETE FROM public.numbers WHERE ctid = {A_ROW}", ["1 rows lost"]),
        (
            f"INSERT INTO public.numbers SELECT * FROM public.numbers WHERE ctid = {A_ROW}",
            ["1 rows doubled or foreign"],
        ),
        (
            f"UPDATE public.numbers SET value = 'other' WHERE ctid = {A_ROW}",
            ["1 rows lost", "1 rows doubled or foreign"],
        ),
        ("CREATE TABLE tidemark_staging.left_behind ()", ["staging left: left_behind"]),
        ("UPDATE tidemark.partitions SET next_offset = next_offset + 1", ["ledger: partition"]),
    ],
)
def test_a_doctored_table_is_noticed(region: IdRegion, doctored: str, found: list[str]) -> None:
    region.sql(doctored)
    faults = region.faults_found()
    assert all(any(one.startswith(fault) for one in faults) for fault in found), faults


def test_an_acknowledged_record_that_is_in_no_row_is_noticed(
    region: IdRegion, journal: Journal
) -> None:
    """And one whose row holds another value."""
    absent, altered = Acked(0, RECORDS, "1.40"), Acked(0, 0, "1.7")
    assert len(region.lost_of([*journal.acked, absent])) == 1
    assert len(region.lost_of([*journal.acked[1:], altered])) == 1


def test_a_batch_that_is_visible_in_part_is_noticed(region: IdRegion) -> None:
    region.sql(f"DELETE FROM public.numbers WHERE ctid = {A_ROW}")
    assert len(list(partly(region))) == 1


def test_rows_of_a_batch_that_is_not_published_are_noticed(region: IdRegion) -> None:
    region.sql(f"UPDATE public.numbers SET batch_seq = 99 WHERE ctid = {A_ROW}")
    assert len(list(partly(region))) == 2


def test_kafka_ahead_of_the_ledger_is_noticed(region: IdRegion, admin: AdminClient) -> None:
    """Unless somebody moved the offset by hand: that carries none of our metadata."""
    for metadata, findings in (("", 0), ("1/1", 1)):
        at = KafkaPartition(region.topic, 0, RECORDS + 1, metadata)
        move_group(admin, region.pipeline.group, at)
        assert len(list(ahead(region, region.group))) == findings


def test_what_is_called_complete_too_early_is_noticed(region: IdRegion, journal: Journal) -> None:
    """A record that was acknowledged before then; one that came later is no finding."""
    journal.add(Acked(0, RECORDS + 1, "1.41"), time() + 3600)
    assert list(incomplete(region, journal)) == []
    region.sql(f"DELETE FROM public.numbers WHERE ctid = {A_ROW}")
    assert len(list(incomplete(region, journal))) == 1


def test_a_record_that_the_output_has_twice_is_noticed(
    kafka: str, warehouse: dict[str, Any], topic: Callable[..., str], group: str
) -> None:
    region = TorturedRegion(kafka, warehouse, topic(partitions=1), group, direct=warehouse)
    region.send()
    produce(kafka, region.topic, [b'{"n": 1}', b'{"n": 2}'])
    region.run()
    assert region.faults_found() == []
    [first, *_] = region.sent()
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce(region.sink, first.value, partition=0, headers=list(first.headers))
    assert producer.flush(120) == 0
    assert any(fault.startswith("sent twice") for fault in region.faults_found())
