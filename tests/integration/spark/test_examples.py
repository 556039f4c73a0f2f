"""The worked examples of dags/: their records, their runs, their proofs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from scripts.demo.example import Example, Place
from scripts.demo.orders_cdc import OrdersCdc
from scripts.demo.payments_avro import PaymentsAvro
from tests.support.commands import answer, tidemark
from tests.support.region import kafka_connection, postgres_connection
from tests.support.registry import KnownRegistry, registry
from tests.support.waiting import until

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def place(
    kafka: str, warehouse: dict[str, Any], kept_spark: None, monkeypatch: pytest.MonkeyPatch
) -> Place:
    """This project, with a database of the test's own and the module's Spark."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv(*kafka_connection(kafka).to_env())
    monkeypatch.setenv(*postgres_connection(warehouse).to_env())
    return Place(kafka, warehouse, "")


def forgotten(example: Example, admin: AdminClient) -> None:
    """The broker does not know the example's topic and group, as on a new machine."""
    admin.delete_topics([example.topic])[example.topic].exception()
    until(lambda: example.topic not in admin.list_topics(timeout=120).topics)
    admin.delete_consumer_groups([example.name])[example.name].exception()


def told(place: Place, example: Example, admin: AdminClient) -> None:
    """Each wave is produced and drained in several batches; the proof holds."""
    forgotten(example, admin)
    file = f"dags/{example.name}.yaml"
    for wave, _ in enumerate(example.waves):
        example.produce(place, wave)
        tidemark("run", file, "--max-records", "400")
    assert set(example.differences(place).values()) == {0}
    assert answer("verify", file)["clean"]
    assert example.shown(place).row_count > 1


@pytest.mark.long
def test_orders_and_their_history(place: Place, admin: AdminClient) -> None:
    """B8, B20: a table that equals the one that Debezium watches, and each change beside it."""
    example = OrdersCdc(600)
    told(place, example, admin)
    stale = place.rows("UPDATE public.orders SET status = 'lost' WHERE status = 'paid' RETURNING 1")
    lost = place.rows("DELETE FROM public.order_history WHERE deleted RETURNING 1")
    stale_and_lost = (len(stale), len(stale), len(lost), 0)
    assert tuple(example.differences(place).values()) == stale_and_lost
    assert not answer("verify", "dags/orders_cdc.yaml", exits=1)["clean"]


@pytest.mark.long
def test_payments_whose_schema_changes(
    place: Place, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B12: rows of the older schema have no method; a broken value is a dead letter."""
    with registry() as known:
        monkeypatch.setenv(*KnownRegistry(known.url).connection().to_env())
        told(replace(place, registry=known.url), PaymentsAvro(600), admin)
        place.rows("DELETE FROM public.payments WHERE payment_id = 7 RETURNING 1")
        [lost, *_] = PaymentsAvro().differences(replace(place, registry=known.url)).values()
    assert lost == 1
    [(without,)] = place.rows("SELECT count(*) FROM public.payments WHERE method IS NULL")
    assert 600 < without < 1200
