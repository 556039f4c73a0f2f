"""What a reset or a rewind did, or would do."""

import logging
from dataclasses import dataclass, field, replace

from tidemark.member.retire import retire
from tidemark.model.batch import Rows
from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.operations.region import MirrorSeen, Region, mirror_seen
from tidemark.protocol.output import refuse_other_output
from tidemark.protocol.settle import Settled

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Removed:
    """What a rewind removes; a reset to the head removes nothing."""

    batches: int
    rows: int
    dead_letters: int
    offsets: Offsets
    """Where each partition stood before."""
    margins: dict[TopicPartition, int]
    """Offsets between Kafka's log start and where reading begins again."""
    lost: tuple[str, ...] = ()
    """What of the records that made these rows nobody reads again, or Kafka no longer gives;
    accepted."""
    seconds: dict[TopicPartition, int | None] = field(default_factory=dict)
    """Until the oldest record to be read again may be deleted; None if retention never does."""
    replays: int = 0
    """Dead letters that became rows later: they are dead letters again."""
    by_target: Rows = field(default_factory=dict)
    """The rows by the name of their target; empty in the report of a reset that is over."""


@dataclass(frozen=True, slots=True)
class ResetReport:
    """What a reset did, or in a dry run (applied false) would do."""

    region: str
    applied: bool
    epoch: int
    head_seq: int
    to_seq: int
    discarded_seqs: tuple[int, ...]
    offsets: Offsets
    """Where each partition stands afterwards."""
    drift: tuple[str, ...]
    removed: Removed | None = None


def dry_run(region: Region) -> tuple[MirrorSeen, ResetReport]:
    """What a reset to the head would do, and the mirror as it is now.

    Raises:
        Refused: the region never opened; or its mirror would be refused, see `refuse_other_output`.
    """
    state = region.state()
    checkpoint = region.ledger.merged_checkpoint(region.name)
    refuse_other_output(checkpoint, region.group.output)
    seen = mirror_seen(region, checkpoint.offsets)
    return seen, ResetReport(
        region=region.name,
        applied=False,
        epoch=state.epoch,
        head_seq=state.head_seq,
        to_seq=state.head_seq,
        discarded_seqs=tuple(region.ledger.unpublished_seqs(region.name)),
        offsets=checkpoint.offsets,
        drift=seen.drift,
    )


def reported_again(region: Region, request_id: str) -> ResetReport | None:
    """What this request has done, if the region still stands where that put it; else None.

    For a task that died between its reset and its answer. Nothing is changed: without a newer
    epoch nobody can have worked in the region, so a second reset would find nothing to do.
    """
    done = region.ledger.finished_reset(region.name, request_id)
    if done is None or not done.stands:
        return None
    log.info("%s was carried out before (%s): nothing is changed now", request_id, done)
    retire(region.ledger.engine, region.name)
    back = Removed(done.batches, done.rows, done.dead_letters, {}, {}) if done.batches else None
    return ResetReport(
        region=region.name,
        applied=True,
        epoch=done.epoch,
        head_seq=done.from_seq,
        to_seq=done.to_seq,
        discarded_seqs=tuple(done.discarded_seqs),
        offsets=region.ledger.merged_checkpoint(region.name, done.to_seq).offsets,
        drift=(),
        removed=back,
    )


def completed(region: Region, report: ResetReport, settled: Settled) -> ResetReport:
    """Old staging is dropped; the report of what was done."""
    retire(region.ledger.engine, region.name)
    return replace(report, applied=True, epoch=settled.epoch, discarded_seqs=settled.discarded_seqs)
