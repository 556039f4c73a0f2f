"""Plan: which spans the next batch has.

  3 plan        Kafka's facts first, then one ledger transaction under region lock and epoch: share
                max_records, write batch + spans. A batch begins where the one before it ends; at
                most `in_flight` of them are unpublished

If it crashes: before COMMIT nothing is planned; after it the plan stands for the epoch, and the
next epoch discards it.
"""

from collections.abc import Sequence

from tidemark import failpoints
from tidemark.model.batch import Batch
from tidemark.model.corruption import reached, stopped
from tidemark.model.facts import Facts, refuse_not_held, refuse_other_topics
from tidemark.model.offsets import Offsets, Span
from tidemark.model.plan import SLOW_START, Bounds, fit, plan, slow_start
from tidemark.protocol.ports import Deciding, Ledger


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
        spans = _next_spans(tx, batches)
        if not spans:
            return batches
        refuse_not_held(region, {span.topic_partition: span.start for span in spans}, facts)
        batch = tx.write_batch(spans)
        refuse_other_topics(
            region, ((p.span.topic, p.topic_id) for p in batch.spans), facts.topic_ids
        )
        failpoints.hit("plan.inside")
    failpoints.hit("plan.after")
    return (*batches, batch)


def _next_spans(tx: Deciding, batches: Sequence[Batch]) -> tuple[Span, ...]:
    """The spans of the next batch; none if it must wait, or the run plans no more."""
    bounds = tx.bounds()
    if batches and len(batches) >= _in_flight(tx, bounds):
        return ()
    if bound := tx.bound_reached():
        tx.write_bound(bound)
        return ()
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


def _share(tx: Deciding, bounds: Bounds, begin: Offsets) -> tuple[Span, ...]:
    """The spans that begin there; a corrupt range is passed where one would begin at its start."""
    accepted = tx.accepted_corrupt()
    for span in reached(accepted, begin):
        tx.pass_over(span)
        begin[span.topic_partition] = span.end
    targets = stopped(tx.target_offsets(), begin, accepted)
    most = slow_start(bounds.max_records, tx.batches_since_reset())
    if bounds.max_bytes is None:
        return plan(begin, targets, most, tx.next_seq)
    weights = tx.bytes_per_offset()
    return fit(begin, targets, most, tx.next_seq, weights, bounds.max_bytes)
