"""How long a member waits for the others: bounded, and judged by what the ledger shows."""

import time
from collections.abc import Iterable

from tidemark.checkpoint import Batch
from tidemark.errors import NoProgress
from tidemark.kafka.group import Group
from tidemark.kafka.holders import Holder
from tidemark.ledger.ledger import Ledger, Progress
from tidemark.offsets import TopicPartition

FOREIGN_SECONDS = 15.0
"""For spans that a consumer holds which is no member of the run: it will never drain them."""


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
        waited = time.monotonic() - self._since
        if waited > min(self._seconds, FOREIGN_SECONDS):
            self._judge(waited)
        return progress

    def _judge(self, waited: float) -> None:
        batch = self._ledger.unpublished_batch(self._region)
        if batch is None or batch.epoch != self._epoch:
            return
        holders = self._group.holders()
        strangers = self._strangers(holders, batch)
        if strangers or waited > self._seconds:
            raise self._no_progress(batch, strangers or holders, waited)

    def _strangers(self, holders: Iterable[Holder], batch: Batch) -> list[Holder]:
        """Who holds a waiting partition and is no member of this run."""
        waiting = {planned.span.topic_partition for planned in batch.unclaimed}
        members = self._ledger.numbers_of_members(self._region, self._epoch)
        return [
            holder
            for holder in _holding(holders, waiting)
            if holder.number(self._region) not in members and not self._is_static(holder)
        ]

    def _is_static(self, holder: Holder) -> bool:
        """Kafka keeps a static member's first client id: its name tells that it is ours."""
        return (holder.instance_id or "").startswith(f"{self._group.group_id}-")

    def _no_progress(self, batch: Batch, holders: list[Holder], waited: float) -> NoProgress:
        waiting = {planned.span.topic_partition for planned in batch.unclaimed}
        spans = ", ".join(str(planned.span) for planned in batch.unclaimed)
        held = "; ".join(str(holder) for holder in _holding(holders, waiting)) or "nobody"
        return NoProgress(
            f"region {self._region}, epoch {self._epoch}, batch {batch.seq}: no span was claimed"
            f" for {waited:.0f} s. Waiting: {spans}. In group {self._group.group_id} they are held"
            f" by: {held}. Stop foreign consumers of this group, or give the region a group of its"
            " own; if a member of the run holds them, look at its job, and raise"
            " no_progress_seconds if it is only slow"
        )


def _holding(holders: Iterable[Holder], waiting: set[TopicPartition]) -> list[Holder]:
    return [holder for holder in holders if waiting & set(holder.partitions)]
