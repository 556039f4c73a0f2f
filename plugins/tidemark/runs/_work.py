"""What a member does next, decided anew at each look.

It follows from what the member owns, what the ledger shows and what is in hand, and from nothing
that an earlier look has found: a contribution in hand may be refused as a whole, and then all that
is not claimed is somebody's to drain. The model of two batches in flight goes by the same function.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tidemark.model.batch import Batch, Contribution
from tidemark.model.offsets import Span, TopicPartition
from tidemark.tracing.step import Attributes


@dataclass(frozen=True, slots=True)
class Work:
    """Spans of one batch that a member drains."""

    batch: Batch
    spans: tuple[Span, ...]

    @property
    def attributes(self) -> Attributes:
        """What a trace says of it."""
        return {
            "tidemark.batch.seq": self.batch.seq,
            "tidemark.batch.spans": len(self.spans),
            "tidemark.batch.offsets": sum(span.width for span in self.spans),
        }


@dataclass(frozen=True, slots=True)
class InHand:
    """A contribution that is on its way: the ledger may not show its claims yet."""

    batch: Batch
    contribution: Contribution

    def takes(self, batch: Batch, span: Span) -> bool:
        """Whether the span is among those that it claims."""
        return batch.seq == self.batch.seq and any(
            read.span == span for read in self.contribution.reads
        )


class Otherwise(StrEnum):
    """What a member does that has nothing to drain."""

    plan = "plan"
    publish = "publish"
    wait = "wait"


def next_step(
    batches: Sequence[Batch], owned: Collection[TopicPartition], in_hand: InHand | None
) -> Work | Otherwise:
    """Drain own spans of n, else of n+1; else publish n if it is complete; plan where none is.

    What is in hand must be asked before the ledger is: then a claim shows in one of them. Whoever
    has something in hand publishes what that completes, and needs nobody beside it.
    """
    if not batches:
        return Otherwise.plan
    if work := own_work(batches, owned, in_hand):
        return work
    if batches[0].is_complete and not in_hand:
        return Otherwise.publish
    return Otherwise.wait


def own_work(
    batches: Sequence[Batch], owned: Collection[TopicPartition], in_hand: InHand | None
) -> Work | None:
    """The member's unclaimed spans of the first batch that has any; None if none has."""
    for batch in batches:
        spans = tuple(
            planned.span
            for planned in batch.unclaimed
            if planned.span.topic_partition in owned
            and not (in_hand and in_hand.takes(batch, planned.span))
        )
        if spans:
            return Work(batch.after(in_hand.contribution.reads) if in_hand else batch, spans)
    return None
