"""dags/orders_cdc.yaml: a shop's orders from Debezium's topic, and what must become of them.

The shop is made up: its orders, and their changes as Debezium writes them.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from rich.table import Table
from scripts.demo.example import Place
from scripts.demo.flight_data import create_topic, replay
from scripts.demo.proof import committed

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
Event = tuple[int, bytes]
"""An order's id and the event's value."""


class OrdersCdc:
    """One topic into a table that equals the shop's, and into the history of its orders."""

    name = "orders_cdc"
    topic = "shop.public.orders"
    services = ("kafka", "postgres", "airflow")
    waves = ("a day of the shop's orders", "the next day")

    def __init__(self, changes: int = CHANGES) -> None:
        self._changes = changes

    def produce(self, place: Place, wave: int) -> int:
        """All changes of an order go to one partition, as Debezium does it."""
        create_topic(place.kafka, self.topic)
        events = Shop(wave + 1).changes(self._changes)
        keyed = [(json.dumps({"order_id": one}).encode(), value) for one, value in events]
        return replay(place.kafka, self.topic, keyed)

    def differences(self, place: Place) -> Mapping[str, int]:
        """Each order's last change is its row, or it has none; each change is in the history."""
        newest: dict[int, tuple[Any, ...]] = {}
        changes: Counter[tuple[Any, ...]] = Counter()
        for message in committed(place.kafka, self.topic):
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

    def shown(self, place: Place) -> Table:
        """The history of one order."""
        table = Table(title="the history of one order: public.order_history")
        for name in ("order", "customer", "status", "amount", "deleted", "updated", "batch"):
            table.add_column(name)
        for row in place.rows(ONE_ORDER):
            table.add_row(*map(str, row))
        return table


def _row(after: dict[str, str] | None) -> tuple[Any, ...]:
    """The order's row; empty if it has none."""
    if after is None:
        return ()
    updated = datetime.fromisoformat(after["updated_at"])
    return after["order_id"], after["customer"], after["status"], Decimal(after["amount"]), updated


@dataclass(frozen=True, slots=True)
class Order:
    """A row of the shop's table."""

    order_id: int
    customer: str
    status: str
    amount: str
    updated_at: str


class Shop:
    """Orders come, go on and are cancelled: a cancelled one is deleted from the table."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311
        self._now = datetime(2026, 1, 1, tzinfo=UTC)
        self._open: list[Order] = []
        self._next_id = seed * 1_000_000

    def changes(self, count: int) -> Iterator[Event]:
        """So many changes, in the order in which they happened."""
        for _ in range(count):
            self._now += timedelta(seconds=7)
            chance = self._random.random()
            if not self._open or chance < 0.3:
                yield self._created()
            elif chance < 0.35:
                yield self._cancelled()
            else:
                yield self._gone_on()

    def _created(self) -> Event:
        self._next_id += 1
        amount = Decimal(self._random.randrange(500, 50_000)) / 100
        customer = self._random.choice(CUSTOMERS)
        order = Order(
            order_id=self._next_id,
            customer=customer,
            status="new",
            amount=f"{amount:.2f}",
            updated_at=self._now.isoformat(),
        )
        self._open.append(order)
        return event("c", None, order)

    def _cancelled(self) -> Event:
        return event("d", self._open.pop(self._random.randrange(len(self._open))), None)

    def _gone_on(self) -> Event:
        at = self._random.randrange(len(self._open))
        before = self._open[at]
        after = replace(before, status=NEXT[before.status], updated_at=self._now.isoformat())
        if after.status in NEXT:
            self._open[at] = after
        else:
            self._open.pop(at)
        return event("u", before, after)


def event(op: str, before: Order | None, after: Order | None) -> Event:
    """As Debezium writes it, without a schema beside it."""
    row = after or before
    assert row is not None
    shape = {
        "before": asdict(before) if before else None,
        "after": asdict(after) if after else None,
        "source": {"connector": "postgresql", "schema": "public", "table": "orders"},
        "op": op,
    }
    return row.order_id, json.dumps(shape).encode()
