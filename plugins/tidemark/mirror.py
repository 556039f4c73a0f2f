"""The mirror: the merged checkpoint written to Kafka's group offsets, for Kafka's own tools."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from tidemark import failpoints
from tidemark.checkpoint import Checkpoint
from tidemark.errors import Fenced, MirrorFailed
from tidemark.offsets import Offsets, TopicPartition


class Writer(Protocol):
    """The one mirror writer of a region that is not fenced."""

    def commit(self, offsets: Offsets, metadata: str) -> None:
        """Write all offsets in one Kafka transaction."""


class Group(Protocol):
    """The region's consumer group as the mirror sees it."""

    def writer(self) -> AbstractContextManager[Writer]:
        """Fence every earlier mirror writer (init_transactions)."""

    def committed(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The group's offsets, transactions decided."""


class Ledger(Protocol):
    """What the mirror reads."""

    def merged_checkpoint(self, region: str, at: int | None = None) -> Checkpoint:
        """Epoch, seq and partition -> next offset; of the head, or of an older checkpoint."""


def mirror(
    ledger: Ledger, group: Group, region: str, epoch: int, at: int | None = None
) -> Checkpoint:
    """Kafka's group offsets equal the merged checkpoint of this epoch, and were read back.

    `at` is the seq that a rewind goes back to; otherwise the head's checkpoint is written.

    1. init_transactions fences every earlier writer   2. read the ledger; stop if the epoch passed
    3. one Kafka transaction with ALL partitions       4. read back
    The order of 1 and 2 is the point: who reads the ledger last writes last.

    If it crashes: the ledger stands; whoever opens, closes or resets next mirrors it.

    Raises:
        Fenced: the region has another epoch, or a newer mirror writer took over.
        MirrorFailed: Kafka did not take the offsets, or reads back others.
    """
    failpoints.hit("mirror.before")
    with group.writer() as writer:
        failpoints.hit("mirror.fenced")
        checkpoint = ledger.merged_checkpoint(region, at)
        if checkpoint.epoch != epoch:
            raise Fenced(f"region {region}: epoch {epoch} has passed, it is {checkpoint.epoch} now")
        failpoints.hit("mirror.read")
        writer.commit(checkpoint.offsets, f"{region}/{epoch}/{checkpoint.seq}")
    failpoints.hit("mirror.after")
    drift = differences(checkpoint.offsets, group.committed(checkpoint.offsets))
    if drift and ledger.merged_checkpoint(region).epoch != epoch:
        raise Fenced(f"region {region}: epoch {epoch} has passed; a newer one wrote the mirror")
    if drift:
        raise MirrorFailed(
            f"region {region}: Kafka reads back other offsets than the ledger's:"
            f" {'; '.join(drift)}. Another process commits in this group; give the region a group"
            " of its own"
        )
    return checkpoint


def differences(ledger: Offsets, kafka: Offsets) -> list[str]:
    """Where Kafka's group offsets differ from the ledger's, one text a partition."""
    return [
        f"{partition}: ledger {offset}, Kafka {kafka.get(partition, 'none')}"
        for partition, offset in sorted(ledger.items())
        if kafka.get(partition) != offset
    ]
