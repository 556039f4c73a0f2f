"""A doorbell: rings for a run when records wait, and leaves all decisions to that run.

What it says may be late, doubled or lost: a run reads the ledger, and a cron line is the floor.
It asks for offsets alone. It joins no group, so nobody's place in a group moves.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from tidemark.airflow._rings import Rings

if TYPE_CHECKING:
    from tidemark.airflow._looks import SharedKafka, SharedLedger
    from tidemark.airflow._shared import CantLook
    from tidemark.views.status import Unread

log = logging.getLogger(__name__)

HOURLY = "0 * * * *"


class Doorbell(BaseEventTrigger):  # type: ignore[misc]
    """Rings once for each epoch in which the region is at rest and records wait.

    Never beside a run, nor after a failed one: the schedule's cron line, `floor`, tries that again.
    Nor where `warehouse` leads to another ledger than that of `group`'s offsets.
    After an open that was refused it rings for new records, or for a file with another fingerprint.
    """

    def __init__(
        self,
        *,
        region: str,
        topics: Sequence[str],
        kafka: str,
        warehouse: str,
        seconds: float,
        floor: str = HOURLY,
        fingerprint: str = "",
        group: str = "",
    ) -> None:
        super().__init__()
        self.region = region
        self.topics = list(topics)
        self.kafka = kafka
        self.warehouse = warehouse
        self.seconds = seconds
        self.floor = floor
        self.fingerprint = fingerprint
        self.group = group
        self._said = ""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """What Airflow keeps of it: connection ids, no secret."""
        kept = (
            "region",
            "topics",
            "kafka",
            "warehouse",
            "seconds",
            "floor",
            "fingerprint",
            "group",
        )
        return f"{__name__}.Doorbell", {name: getattr(self, name) for name in kept}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Ring, for as long as the triggerer lives."""
        from tidemark.airflow._looks import SharedKafka, SharedLedger
        from tidemark.airflow._shared import shared

        rings, topics = Rings(self.fingerprint, self.floor), tuple(self.topics)
        async with (
            shared(SharedLedger, self.warehouse, self.region) as ledger,
            shared(SharedKafka, self.kafka, topics) as kafka,
        ):
            while True:
                found = await self.looked(ledger, kafka, topics)
                if found and rings.is_due(found) and await self.is_of(ledger, kafka, found):
                    yield TriggerEvent({"region": self.region, "unread_offsets": found.offsets})
                await asyncio.sleep(self.seconds)

    async def looked(
        self, ledger: "SharedLedger", kafka: "SharedKafka", topics: tuple[str, ...]
    ) -> "Unread | None":
        """What waits; None where that can't be told, which the ledger learns then."""
        from tidemark.airflow._shared import CantLook
        from tidemark.views.status import unread_of

        facts = await kafka.look(topics, self.seconds / 2)
        ledger.say(self.region, facts if isinstance(facts, CantLook) else None)
        awaited = await ledger.look(self.region, self.seconds / 2)
        problem = next((one for one in (facts, awaited) if isinstance(one, CantLook)), None)
        self._tell(problem)
        if isinstance(facts, CantLook) or isinstance(awaited, CantLook):
            return None
        return unread_of(awaited, facts) if awaited and facts else None

    async def is_of(self, ledger: "SharedLedger", kafka: "SharedKafka", found: "Unread") -> bool:
        """Whether the ledger is the region's. One that does not know it is compared with Kafka."""
        from tidemark.airflow._shared import in_thread

        if found.epoch or not self.group:
            return True
        of_group = partial(kafka.group, self.group)
        problem = await in_thread(lambda: ledger.other(self.region, of_group, found.ends))
        self._tell(problem)
        return problem is None

    def _tell(self, problem: "CantLook | None") -> None:
        """For the triggerer's log, once for each problem."""
        said, self._said = self._said, problem.text if problem else ""
        if problem and problem.text != said:
            log.warning(
                "region %s: the backlog is unknown: %s: %s",
                self.region,
                problem.code,
                problem.text,
            )
