"""What a member does next: its spans of the lowest batch that has any left."""

from collections.abc import Container, Sequence
from dataclasses import dataclass

from tidemark.model.batch import Batch
from tidemark.model.contribution import Contribution
from tidemark.model.offsets import Span, TopicPartition
from tidemark.tracing.steps import Attributes


@dataclass(frozen=True, slots=True)
class Work:
    """Spans of one batch that a member drains."""

    batch: Batch
    spans: tuple[Span, ...]

    @property
    def told(self) -> Attributes:
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


def next_work(
    batches: Sequence[Batch], assigned: Container[TopicPartition], in_hand: InHand | None
) -> Work | None:
    """The member's unclaimed spans of the first batch that has any; None if none has.

    What is in hand must be asked before the ledger is: then a claim shows in one of them.
    """
    for batch in batches:
        spans = tuple(
            planned.span
            for planned in batch.unclaimed
            if planned.span.topic_partition in assigned
            and not (in_hand and in_hand.takes(batch, planned.span))
        )
        if spans:
            return Work(batch.after(in_hand.contribution.reads) if in_hand else batch, spans)
    return None
