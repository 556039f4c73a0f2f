"""dags/payments_avro.yaml: payments whose schema changes between two days, and their proof."""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from scripts.demo.example import Example, Place
from scripts.demo.flight_data import create_topic, replay

PAYMENTS = 60_000
BROKEN = b"\0\0\0\0\0 paid"
"""A value whose schema's id no registry gives."""
METHODS = ("card", "transfer", None)
FIRST = """
{"type": "record", "name": "Payment", "namespace": "shop", "fields": [
  {"name": "payment_id", "type": "long"},
  {"name": "account", "type": "string"},
  {"name": "amount",
   "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
  {"name": "paid_at", "type": {"type": "long", "logicalType": "timestamp-millis"}}
]}
"""
SECOND = """
{"type": "record", "name": "Payment", "namespace": "shop", "fields": [
  {"name": "payment_id", "type": "long"},
  {"name": "paid_at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
  {"name": "method", "type": ["null", "string"], "default": null},
  {"name": "account", "type": "string"},
  {"name": "amount",
   "type": {"type": "bytes", "logicalType": "decimal", "precision": 14, "scale": 2}}
]}
"""
ROWS = "SELECT payment_id, account, amount, paid_at, method FROM public.payments"
BY_METHOD = """
SELECT method, count(*), min(amount), max(amount), min(paid_at)::date FROM public.payments
GROUP BY method ORDER BY method NULLS FIRST
"""
DEAD_LETTERS = "SELECT count(*) FROM tidemark.dead_letters WHERE region = 'payments_avro'"


class PaymentsAvro(Example):
    """Avro from a registry; from the second day on payments say how they were made."""

    name = "payments_avro"
    topic = "payments"
    services = ("kafka", "registry", "postgres", "airflow")
    waves = ("a day of payments", "the next day, with another schema")
    shows = (
        "public.payments by method; null before the schema had it",
        BY_METHOD,
        ("method", "payments", "smallest", "largest", "first day"),
    )

    def __init__(self, payments: int = PAYMENTS) -> None:
        self._payments = payments

    def produce(self, place: Place, wave: int) -> int:
        """The client's own serializer writes them; one value of each day is broken."""
        create_topic(place.kafka, self.topic)
        registry = SchemaRegistryClient({"url": place.registry})
        serializer = AvroSerializer(registry, (FIRST, SECOND)[wave])
        context = SerializationContext(self.topic, MessageField.VALUE)
        keyed = [
            (payment["account"].encode(), serializer(payment, context))
            for payment in payments(wave, self._payments)
        ]
        return replay(place.kafka, self.topic, [*keyed, (b"nobody", BROKEN)])

    def differences(self, place: Place) -> Mapping[str, int]:
        """Each payment is a row once, each broken value a dead letter."""
        sent, broken = self._sent(place)
        rows = Counter(place.rows(ROWS))
        [(dead_letters,)] = place.rows(DEAD_LETTERS)
        return {
            "payments lost": (sent - rows).total(),
            "payments doubled or foreign": (rows - sent).total(),
            f"dead letters too many or too few, of {broken}": abs(dead_letters - broken),
        }

    def _sent(self, place: Place) -> tuple[Counter[tuple[Any, ...]], int]:
        """The payments as the client's own deserializer reads them, and how many it can't read."""
        deserializer = AvroDeserializer(SchemaRegistryClient({"url": place.registry}))
        context = SerializationContext(self.topic, MessageField.VALUE)
        sent: Counter[tuple[Any, ...]] = Counter()
        broken = 0
        for message in place.committed(self.topic):
            if message.value() == BROKEN:
                broken += 1
                continue
            found = deserializer(message.value(), context)
            names = ("payment_id", "account", "amount", "paid_at", "method")
            sent[tuple(found.get(name) for name in names)] += 1
        return sent, broken


def payments(day: int, count: int) -> Iterator[dict[str, Any]]:
    """A day's payments; from the second day on with a method, if it is known."""
    random = Random(day)  # noqa: S311
    began = datetime(2026, 3, 1 + day, tzinfo=UTC)
    for number in range(count):
        paid = {
            "payment_id": day * 1_000_000 + number,
            "account": f"NL{random.randrange(2_000):08}",
            "amount": Decimal(random.randrange(-50_000, 500_000)) / 100,
            "paid_at": began + timedelta(milliseconds=number * 86_400_000 // count),
        }
        yield paid | ({"method": random.choice(METHODS)} if day else {})
