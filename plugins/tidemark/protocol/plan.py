"""Plan: which spans the next batch has.

  3 plan        Kafka's facts first, then one ledger transaction under region lock and epoch: share
                as many records as bounds and time allow, write batch + spans. A batch begins where
                the one before it ends; at most `in_flight` of them are unpublished

If it crashes: before COMMIT nothing is planned; after it the plan stands for the epoch, and the
next epoch discards it.
"""

from collections.abc import Iterable, Sequence

from tidemark import failpoints
from tidemark.model.batch import Batch
from tidemark.model.corruption import reached, stopped
from tidemark.model.deletions import waiting
from tidemark.model.errors import DeletionsMayBeGone
from tidemark.model.facts import Facts, backlog, refuse_not_held, refuse_other_topics
from tidemark.model.offsets import Offsets, Span
from tidemark.model.plan import SLOW_START, BatchRoom, BatchSize, BatchSizes, Bounds, fit, plan
from tidemark.protocol.ports import Deciding, Ledger

Planned = tuple[tuple[Span, ...], BatchSize]
"""The spans of a batch, and why they are no more."""


def plan_batch(ledger: Ledger, region: str, epoch: int, facts: Facts) -> tuple[Batch, ...]:
    """The epoch's unpublished batches, lowest seq first; plan one more if the bounds allow it.

    A plan is fixed within its epoch and dies with it: what is unpublished is taken as it is. None
    are there when the run is done.

    Raises:
        Fenced: the epoch has passed.
        DataLost: Kafka no longer holds what the plan needs.
    """
    failpoints.hit("plan.before")
    with ledger.deciding(region, epoch, "plan") as tx:
        batches = tx.unpublished_batches()
        planned = _next_spans(tx, batches)
        if planned is None:
            return batches
        spans, size = planned
        refuse_not_held(region, {span.topic_partition: span.start for span in spans}, facts)
        refuse_late(tx, region, spans)
        batch = tx.write_batch(spans, size)
        refuse_other_topics(
            region, ((p.span.topic, p.topic_id) for p in batch.spans), facts.topic_ids
        )
        failpoints.hit("plan.inside")
    failpoints.hit("plan.after")
    return (*batches, batch)


def refuse_late(tx: Deciding, region: str, spans: Iterable[Span]) -> None:
    """Refuse spans where a run took so long that compaction may have taken deletions.

    Before they are read, and after: a batch that is planned in time may be read much later.

    Raises:
        DataLost: names the ranges.
    """
    if not tx.deletions_are_due():
        return
    begin = {span.topic_partition: span.start for span in spans}
    found = waiting(begin, tx.target_offsets(), lambda _: None, tx.unread())
    if late := tuple(one for one in found if one.is_overdue):
        raise DeletionsMayBeGone(region=region, waiting=late)


def _next_spans(tx: Deciding, batches: Sequence[Batch]) -> Planned | None:
    """The next batch; None if it must wait, or the run plans no more."""
    bounds = tx.bounds()
    if batches and len(batches) >= _in_flight(tx, bounds):
        return None
    if bound := tx.bound_reached():
        tx.write_bound(bound)
        return None
    return _share(tx, bounds, _planned(tx, batches))


def _in_flight(tx: Deciding, bounds: Bounds) -> int:
    """One at a time after a reset, whose small batches shall fail soon; and beside a corrupt range.

    Such a range is passed only where all before it is published.
    """
    since_reset = tx.batches_since_reset()
    is_slow = since_reset is not None and since_reset < SLOW_START
    return 1 if is_slow or tx.accepted_corrupt() else bounds.in_flight


def _planned(tx: Deciding, batches: Sequence[Batch]) -> Offsets:
    """Where each partition stands once the batches are published."""
    ends = {p.span.topic_partition: p.span.end for batch in batches for p in batch.spans}
    return tx.next_offsets() | ends


def _share(tx: Deciding, bounds: Bounds, begin: Offsets) -> Planned | None:
    """What begins there, if anything is left; a corrupt range is passed where it would begin."""
    accepted = tx.accepted_corrupt()
    for span in reached(accepted, begin):
        tx.pass_over(span)
        begin[span.topic_partition] = span.end
    targets = stopped(tx.target_offsets(), begin, accepted)
    sizes = BatchSizes() if bounds.seconds is None else tx.newest_sizes()
    room = BatchRoom.of(bounds, sizes, tx.batches_since_reset())
    if bounds.max_bytes is None:
        spans = plan(begin, targets, room.offsets, tx.next_seq)
    else:
        weights = tx.bytes_per_offset()
        spans = fit(begin, targets, room.offsets, tx.next_seq, weights, bounds.max_bytes)
    return (spans, room.size(spans, backlog(begin, targets))) if spans else None
