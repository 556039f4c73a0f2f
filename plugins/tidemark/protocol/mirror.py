"""The mirror: the merged checkpoint written to Kafka's group offsets, for Kafka's own tools."""

from collections.abc import Container

from tidemark import failpoints
from tidemark.errors import Fenced, MirrorFailed
from tidemark.model.batch import Checkpoint
from tidemark.model.offsets import Offsets
from tidemark.protocol.ports import Deciding, Group, Ledger

ATTEMPTS = 5
"""Mirrors of the same epoch that may take over before one gives up."""


def mirror(
    ledger: Ledger[Deciding],
    group: Group,
    region: str,
    epoch: int,
    at: int | None = None,
    gone: frozenset[str] = frozenset(),
) -> Checkpoint:
    """Kafka's group offsets equal the merged checkpoint of this epoch, and were read back.

    `at` is the seq that a rewind goes back to; otherwise the head's checkpoint is written. Topics
    that are `gone` are left out: Kafka takes no offsets for them, and the next open judges that.

    1. a writer that has fenced every earlier one      2. read the ledger; stop if the epoch passed
    3. one Kafka transaction with ALL partitions       4. read back
    The order of 1 and 2 is the point: who reads the ledger last writes last. Overtaken by a
    mirror of the same epoch (another member's, one by hand) it begins again.

    A writer may serve many mirrors, one after the other: each reads the ledger anew, and all that
    it writes was read before the next writer was there, whose reads come after.

    If it crashes: the ledger stands; whoever opens, closes or resets next mirrors it.

    Raises:
        Fenced: the region has another epoch.
        MirrorFailed: Kafka did not take the offsets, or reads back others.
    """
    for _ in range(ATTEMPTS):
        try:
            return _mirror(ledger, group, region, epoch, at, gone)
        except Fenced as error:
            if ledger.merged_checkpoint(region).epoch != epoch:
                raise
            overtaken = error
    raise MirrorFailed(
        f"region {region}: other mirrors of epoch {epoch} took over each time"
    ) from overtaken


def _mirror(
    ledger: Ledger[Deciding],
    group: Group,
    region: str,
    epoch: int,
    at: int | None,
    gone: frozenset[str],
) -> Checkpoint:
    failpoints.hit("mirror.before")
    with group.writer() as writer:
        failpoints.hit("mirror.fenced")
        checkpoint = ledger.merged_checkpoint(region, at)
        if checkpoint.epoch != epoch:
            raise Fenced(
                f"region {region}: epoch {epoch} has passed, the region is at {checkpoint.epoch}"
            )
        failpoints.hit("mirror.read")
        offsets = without(gone, checkpoint.offsets)
        writer.commit(offsets, f"{region}/{epoch}/{checkpoint.seq}")
    failpoints.hit("mirror.after")
    drift = differences(offsets, group.committed(offsets))
    if drift and ledger.merged_checkpoint(region, at) != checkpoint:
        raise Fenced(f"region {region}: a newer mirror was written meanwhile")
    if drift:
        raise MirrorFailed(
            f"region {region}: Kafka's group offsets differ from the ledger's after the mirror:"
            f" {'; '.join(drift)}. Another process commits in this group; give the region a group"
            " of its own"
        )
    return checkpoint


def without(topics: Container[str], offsets: Offsets) -> Offsets:
    """The offsets of all other topics."""
    return {tp: offset for tp, offset in offsets.items() if tp.topic not in topics}


def differences(ledger: Offsets, kafka: Offsets) -> list[str]:
    """Where Kafka's group offsets differ from the ledger's, one text a partition."""
    return [
        f"{partition}: ledger {offset}, Kafka {kafka.get(partition, 'none')}"
        for partition, offset in sorted(ledger.items())
        if kafka.get(partition) != offset
    ]
