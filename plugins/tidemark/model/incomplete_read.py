"""A batch that was not read whole, in the same words wherever that is found."""

from collections.abc import Iterable

from tidemark.errors import IncompleteRead
from tidemark.model.batch import Batch
from tidemark.model.contribution import SpanRead
from tidemark.model.offsets import Span, spans_in_ranges


def refuse_unread(
    batch: Batch, spans: Iterable[Span], reads: Iterable[SpanRead], transform: str | None
) -> None:
    """Every span has a complete read.

    Raises:
        IncompleteRead: the transform lets Spark stop reading early; names spans and transform.
    """
    if unread := set(spans) - {read.span for read in reads}:
        fact = f"transform {transform or '(none)'} left no complete read of"
        raise incomplete_read(batch, fact, unread)


def incomplete_read(batch: Batch, fact: str, spans: Iterable[Span]) -> IncompleteRead:
    """The fact about these spans, and the remedy."""
    return IncompleteRead(
        f"region {batch.region}, batch {batch.seq}: {fact} {spans_in_ranges(spans)}:"
        " rows were cut or skipped. Remove limit(), first() and always-false filters from the"
        " transform"
    )
