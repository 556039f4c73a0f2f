"""A made-up shop: its orders, and their changes as Debezium writes them."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

NEXT = {"new": "paid", "paid": "shipped", "shipped": "delivered"}
CUSTOMERS = ("Ada", "Grace", "Edsger", "Barbara", "Leslie", "Radia")
Event = tuple[int, bytes]
"""An order's id and the event's value."""


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
