"""The mirror: the merged checkpoint written to Kafka's group offsets, for Kafka's own tools.

Where the region has an output topic, the rows that were not sent yet go with them, in the same
Kafka transaction: see `output.py`.
"""

from tidemark import failpoints
from tidemark.errors import Fenced, OutputTooLarge
from tidemark.model.batch import Checkpoint
from tidemark.model.offsets import Offsets
from tidemark.protocol.errors import (
    MirrorEpochPassed,
    MirrorOvertaken,
    MirrorReadBackDiffers,
    MirrorsTookOver,
)
from tidemark.protocol.output import Due, due
from tidemark.protocol.ports import Group, Ledger

ATTEMPTS = 5
"""Mirrors of the same epoch that may take over before one gives up."""


def mirror(
    ledger: Ledger,
    group: Group,
    region: str,
    epoch: int,
    at: int | None = None,
    gone: frozenset[str] = frozenset(),
) -> Checkpoint:
    """Kafka's group offsets equal the merged checkpoint of this epoch, and were read back.

    `at` is the seq that a rewind goes back to; otherwise the head's checkpoint is written. Topics
    that are `gone` are left out: Kafka takes no offsets for them, and the next open judges that.
    With an output topic all that is published is sent then, but by a rewind, which sends nothing.

    1. a writer that has fenced every earlier one      2. read the ledger; stop if the epoch passed
    3. one Kafka transaction with ALL partitions       4. read back
    The order of 1 and 2 is the point: who reads the ledger last writes last. Overtaken by a
    mirror of the same epoch (another member's, one by hand) it begins again. So it does while
    batches are left that were too many for one transaction.

    A writer may serve many mirrors, one after the other: each reads the ledger anew, and all that
    it writes was read before the next writer was there, whose reads come after.

    If it crashes: the ledger stands; whoever opens, closes or resets next mirrors it.

    Raises:
        Fenced: the region has another epoch.
        MirrorFailed: Kafka did not take the offsets, or reads back others.
        Refused: what was sent is not known, or rows are not those that were published.
        OutputTooLarge: the rows of one batch can't be sent in one transaction.
    """
    overtaken = 0
    while True:
        try:
            done = _mirror(ledger, group, region, epoch, at, gone)
        except Fenced as error:
            if ledger.merged_checkpoint(region).epoch != epoch:
                raise
            overtaken += 1
            if overtaken == ATTEMPTS:
                raise MirrorsTookOver(region=region, epoch=epoch) from error
        except OutputTooLarge as error:
            _refuse_passed(ledger, region, epoch, error)
            raise
        else:
            if done.is_all:
                return done.checkpoint


def _refuse_passed(ledger: Ledger, region: str, epoch: int, error: OutputTooLarge) -> None:
    """A writer that stood still can't tell its transaction's time-out from a newer writer."""
    now_at = ledger.merged_checkpoint(region).epoch
    if now_at != epoch:
        raise MirrorEpochPassed(region=region, epoch=epoch, now_at=now_at) from error


def _mirror(
    ledger: Ledger,
    group: Group,
    region: str,
    epoch: int,
    at: int | None,
    gone: frozenset[str],
) -> Due:
    failpoints.hit("mirror.before")
    with group.writer() as writer:
        failpoints.hit("mirror.fenced")
        with due(ledger, group, region, epoch, at, gone) as wanted:
            failpoints.hit("mirror.read")
            writer.commit(wanted.offsets, wanted.metadata, wanted.records)
    failpoints.hit("mirror.after")
    drift = differences(wanted.offsets, group.committed(wanted.offsets))
    drift += _sent_drift(group, wanted)
    if drift and _is_overtaken(ledger, region, at, wanted):
        raise MirrorOvertaken(region=region)
    if drift:
        raise MirrorReadBackDiffers(region=region, differences=tuple(drift))
    if group.output and wanted.sent:
        group.output.confirm(region, wanted.sent)
    return wanted


def _sent_drift(group: Group, wanted: Due) -> list[str]:
    """One text if Kafka names another batch as sent than was written; else none."""
    found = group.sent(wanted.offsets) if wanted.sent else set()
    if found == {wanted.sent} - {None}:
        return []
    return [f"sent: {wanted.sent}, Kafka {', '.join(map(str, found)) or 'none'}"]


def _is_overtaken(ledger: Ledger, region: str, at: int | None, wanted: Due) -> bool:
    return not wanted.is_all or ledger.merged_checkpoint(region, at) != wanted.checkpoint


def differences(ledger: Offsets, kafka: Offsets) -> list[str]:
    """Where Kafka's group offsets differ from the ledger's, one text a partition."""
    return [
        f"{partition}: ledger {offset}, Kafka {kafka.get(partition, 'none')}"
        for partition, offset in sorted(ledger.items())
        if kafka.get(partition) != offset
    ]
