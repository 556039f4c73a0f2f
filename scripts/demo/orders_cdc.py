"""dags/orders_cdc.yaml: a shop's orders from Debezium's topic, and what must become of them."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from scripts.demo.example import Example, Place
from scripts.demo.flight_data import create_topic, replay

CHANGES = 100_000
ORDERS = "SELECT order_id, customer, status, amount, updated_at FROM public.orders"
HISTORY = """
SELECT kafka_partition, kafka_offset, order_id, status, deleted FROM public.order_history
"""
ONE_ORDER = """
SELECT order_id, customer, status, amount, deleted, to_char(updated_at, 'Mon DD HH24:MI'), batch_seq
FROM public.order_history
WHERE order_id = (SELECT order_id FROM public.order_history
                  GROUP BY order_id ORDER BY count(DISTINCT batch_seq) DESC, order_id LIMIT 1)
ORDER BY kafka_offset
"""
NEXT = {"new": "paid", "paid": "shipped", "shipped": "delivered"}
CUSTOMERS = ("Ada", "Grace", "Edsger", "Barbara", "Leslie", "Radia")
Order = dict[str, Any]
Event = tuple[int, bytes]
"""An order's id and the event's value."""


class OrdersCdc(Example):
    """One topic into a table that equals the shop's, and into the history of its orders."""

    name = "orders_cdc"
    topic = "shop.public.orders"
    services = ("kafka", "postgres", "airflow")
    waves = ("a day of the shop's orders", "the next day")
    shows = (
        "the history of one order: public.order_history",
        ONE_ORDER,
        ("order", "customer", "status", "amount", "deleted", "updated", "batch"),
    )

    def __init__(self, changes: int = CHANGES) -> None:
        self._changes = changes

    def produce(self, place: Place, wave: int) -> int:
        """All changes of an order go to one partition, as Debezium does it."""
        create_topic(place.kafka, self.topic)
        events = changes(wave + 1, self._changes)
        keyed = [(json.dumps({"order_id": one}).encode(), value) for one, value in events]
        return replay(place.kafka, self.topic, keyed)

    def differences(self, place: Place) -> Mapping[str, int]:
        """Each order's last change is its row, or it has none; each change is in the history."""
        newest: dict[int, tuple[Any, ...]] = {}
        changes: Counter[tuple[Any, ...]] = Counter()
        for message in place.committed(self.topic):
            found = json.loads(message.value())
            row = found["after"] or found["before"]
            changes[message.partition(), message.offset(), row["order_id"], row["status"],
                    found["op"] == "d"] += 1  # fmt: skip
            newest[row["order_id"]] = _row(found["after"])
        expected = Counter(row for row in newest.values() if row)
        orders, history = (Counter(place.rows(query)) for query in (ORDERS, HISTORY))
        return {
            "orders lost or stale": (expected - orders).total(),
            "orders doubled or foreign": (orders - expected).total(),
            "changes lost": (changes - history).total(),
            "changes doubled or foreign": (history - changes).total(),
        }


def _row(after: dict[str, str] | None) -> tuple[Any, ...]:
    """The order's row; empty if it has none."""
    if after is None:
        return ()
    updated = datetime.fromisoformat(after["updated_at"])
    return after["order_id"], after["customer"], after["status"], Decimal(after["amount"]), updated


def changes(seed: int, count: int) -> Iterator[Event]:
    """Changes of a shop's orders, in the order in which they happened, as Debezium writes them.

    Orders come and go on; one that is cancelled is deleted from the table.
    """
    random, now = Random(seed), datetime(2026, 1, 1, tzinfo=UTC)  # noqa: S311
    open_orders: list[Order] = []
    for number in range(count):
        now += timedelta(seconds=7)
        chance = random.random()
        before: Order | None = None
        after: Order | None = None
        if open_orders and chance > 0.3:
            before = open_orders.pop(random.randrange(len(open_orders)))
        if before is None:
            after = {
                "order_id": seed * 1_000_000 + number,
                "customer": random.choice(CUSTOMERS),
                "status": "new",
                "amount": f"{Decimal(random.randrange(500, 50_000)) / 100:.2f}",
                "updated_at": now.isoformat(),
            }
        elif chance > 0.35:
            after = before | {"status": NEXT[before["status"]], "updated_at": now.isoformat()}
        if after and after["status"] in NEXT:
            open_orders.append(after)
        event = {
            "before": before,
            "after": after,
            "source": {"connector": "postgresql", "schema": "public", "table": "orders"},
            "op": "u" if before and after else "d" if before else "c",
        }
        order: Order = after or before or {}
        yield order["order_id"], json.dumps(event).encode()
