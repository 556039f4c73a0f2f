"""How long a member waits for the others: bounded, and judged by what the ledger shows."""

import time

from tidemark.checkpoint import Batch
from tidemark.errors import NoProgress
from tidemark.kafka.group import Group
from tidemark.kafka.holders import Holder
from tidemark.ledger.ledger import Ledger, Progress
from tidemark.ledger.looks import Looks

FOREIGN_SECONDS = 15.0
"""For spans that a consumer holds which is no member of the run: it will never drain them."""

JUDGE_PAUSE = 2.0
"""Between two questions to Kafka about who holds what."""


class Patience:
    """Since when nothing has moved in a run, and what to say when that is too long."""

    def __init__(
        self, ledger: Ledger, group: Group, region: str, epoch: int, seconds: float
    ) -> None:
        self._ledger = ledger
        self._group = group
        self._region = region
        self._epoch = epoch
        self._seconds = seconds
        self._last: Progress | None = None
        self._since = time.monotonic()
        self._judged = self._since

    def renew(self) -> None:
        """Something moved."""
        self._since = time.monotonic()

    def look(self) -> Progress:
        """How far the run is; a change of it renews the patience.

        Raises:
            NoProgress: nothing has changed for too long; names the spans and who holds them.
        """
        progress = self._ledger.progress(self._region, self._epoch)
        if progress != self._last:
            self._last = progress
            self.renew()
        now = time.monotonic()
        waited = now - self._since
        if waited > min(self._seconds, FOREIGN_SECONDS) and now > self._judged + JUDGE_PAUSE:
            self._judged = now
            self._judge(waited)
        return progress

    def _judge(self, waited: float) -> None:
        batch = self._ledger.unpublished_batch(self._region)
        if batch is None or batch.epoch != self._epoch:
            return
        waiting = {planned.span.topic_partition for planned in batch.unclaimed}
        holding = [one for one in self._group.holders() if waiting & set(one.partitions)]
        strangers = self._strangers(holding)
        if strangers or waited > self._seconds:
            raise self._no_progress(batch, strangers or holding, waited)

    def _strangers(self, holding: list[Holder]) -> list[Holder]:
        """Who holds a waiting partition and is no member of this run.

        Kafka keeps a static member's first client id: its name tells that it is ours.
        """
        shown = Looks(self._ledger.engine).members_at(self._region, self._epoch)
        members = {member.number for member in shown}
        return [
            holder
            for holder in holding
            if holder.number(self._region) not in members
            and not holder.is_static(self._group.group_id)
        ]

    def _no_progress(self, batch: Batch, holding: list[Holder], waited: float) -> NoProgress:
        spans = ", ".join(str(planned.span) for planned in batch.unclaimed)
        held = "; ".join(map(str, holding)) or "nobody"
        return NoProgress(
            f"region {self._region}, epoch {self._epoch}, batch {batch.seq}: no span was claimed"
            f" for {waited:.0f} s. Waiting: {spans}. In group {self._group.group_id} they are held"
            f" by: {held}. Stop foreign consumers of this group, or give the region a group of its"
            " own; if a member of the run holds them, look at its job, and raise"
            " no_progress_seconds if it is only slow"
        )
