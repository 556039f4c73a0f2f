"""A doorbell: rings for a run when records wait, and leaves all decisions to that run.

What it says may be late, doubled or lost: a run reads the ledger, and a cron line is the floor.
It asks for offsets alone. It joins no group, so nobody's place in a group moves.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from airflow.sdk import Connection as AirflowConnection
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from tidemark.errors import TidemarkError
from tidemark.settings.connections import Connection

if TYPE_CHECKING:
    from tidemark.views.status import Unread

log = logging.getLogger(__name__)

AGAIN_SECONDS = 300.0
"""A ring that no run answered is repeated after so long: the DAG may have been paused."""


class Doorbell(BaseEventTrigger):  # type: ignore[misc]
    """Rings once for each epoch in which the region is at rest and records wait.

    Never beside a run, nor after a failed one: the schedule's cron line tries that again.
    """

    def __init__(
        self, *, region: str, topics: Sequence[str], kafka: str, warehouse: str, seconds: float
    ) -> None:
        super().__init__()
        self.region = region
        self.topics = list(topics)
        self.kafka = kafka
        self.warehouse = warehouse
        self.seconds = seconds
        self._rung_for = -1
        self._rung_at = 0.0

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """What Airflow keeps of it: connection ids, no secret."""
        kept = ("region", "topics", "kafka", "warehouse", "seconds")
        return f"{__name__}.Doorbell", {name: getattr(self, name) for name in kept}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Ring, for as long as the triggerer lives."""
        from tidemark.kafka.config import kafka_config
        from tidemark.kafka.facts import Broker
        from tidemark.ledger.ledger import Ledger
        from tidemark.postgres.parameters import postgres_parameters
        from tidemark.postgres.transaction import connect

        engine = connect(postgres_parameters(await _connection(self.warehouse)))
        broker = Broker(kafka_config(await _connection(self.kafka)))
        try:
            while True:
                found = await asyncio.to_thread(self._asked, Ledger(engine), broker)
                if found and self._is_to_ring(found):
                    yield TriggerEvent({"region": self.region, "unread_offsets": found.offsets})
                await asyncio.sleep(self.seconds)
        finally:
            engine.dispose()

    def _asked(self, ledger: Any, broker: Any) -> "Unread | None":
        from tidemark.views.status import unread

        try:
            return unread(ledger, broker, self.region, self.topics)
        except TidemarkError as error:
            log.warning("region %s: the backlog is unknown: %s", self.region, error)
            return None

    def _is_to_ring(self, found: "Unread") -> bool:
        is_new = self._rung_for != found.epoch
        is_stale = monotonic() - self._rung_at > AGAIN_SECONDS
        if not (found.offsets and found.is_at_rest and (is_new or is_stale)):
            return False
        self._rung_for, self._rung_at = found.epoch, monotonic()
        return True


async def _connection(conn_id: str) -> Connection:
    return Connection.from_airflow(await AirflowConnection.async_get(conn_id))
