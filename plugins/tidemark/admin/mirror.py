"""A mirror from outside: Kafka's group offsets repaired from the ledger, or what differs told."""

from dataclasses import dataclass

from tidemark.admin.errors import MirrorDuringRewind, MirrorDuringWithholding
from tidemark.model.offsets import Offsets
from tidemark.protocol.mirror import mirror
from tidemark.runs.region import Region, drift_of, mirror_seen, region_of, topics_gone
from tidemark.settings.endpoints import Connections
from tidemark.settings.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class MirrorReport:
    """What Kafka's group offsets were, and are now."""

    region: str
    epoch: int
    head_seq: int
    mirrored: bool
    """Whether the offsets were written; a look (check=True) writes nothing."""
    offsets: Offsets
    """The merged checkpoint: the ledger's offsets."""
    before: tuple[str, ...]
    """Where Kafka differed, one text a partition."""
    after: tuple[str, ...]
    """Where it still does; after a mirror that is nowhere."""


def mirror_region(pipeline: Pipeline, connections: Connections, *, check: bool) -> MirrorReport:
    """Kafka's group offsets equal the ledger's merged checkpoint and were read back; or a look.

    Takes no epoch and discards nothing: a run that is at work stays at work.

    If it crashes: the ledger stands; whoever opens, closes or resets next mirrors it.

    Raises:
        Refused: the region never opened; or a rewind is not finished, and Kafka would get ahead of
            it; or a withholding is not, and what it withholds might be sent.
        Fenced: another open or reset took over meanwhile; that one mirrors.
        MirrorFailed: Kafka did not take the offsets, or reads back others.
    """
    with region_of(pipeline, connections) as region:
        region.state()
        checkpoint = region.ledger.merged_checkpoint(region.name)
        # After the epoch was read: a rewind that begins later fences this mirror.
        if not check and region.ledger.rewind_is_under_way(region.name):
            raise MirrorDuringRewind(region=region.name)
        if not check and region.ledger.withholding_is_under_way(region.name):
            raise MirrorDuringWithholding(region=region.name)
        before = _drift(region, checkpoint.offsets, check=check)
        if not check:
            gone = topics_gone(region, checkpoint.offsets)
            checkpoint = mirror(
                region.ledger, region.group, region.name, checkpoint.epoch, gone=gone
            )
        return MirrorReport(
            region=region.name,
            epoch=checkpoint.epoch,
            head_seq=checkpoint.seq,
            mirrored=not check,
            offsets=checkpoint.offsets,
            before=before,
            after=before if check else (),
        )


def _drift(region: Region, offsets: Offsets, *, check: bool) -> tuple[str, ...]:
    """Where Kafka's offsets differ; a mirror goes on where they are unknown, a check can't."""
    if check:
        return drift_of(region, offsets, region.group.committed(offsets))
    return mirror_seen(region, offsets).drift
