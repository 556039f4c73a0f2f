"""A batch that was not read whole."""

from collections.abc import Iterable

from tidemark.model.batch import Batch, SpanRead
from tidemark.model.errors import SpansNotReadToTheEnd
from tidemark.model.offsets import Span


def refuse_unread(
    batch: Batch, spans: Iterable[Span], reads: Iterable[SpanRead], transform: str | None
) -> None:
    """Every span has a complete read.

    Raises:
        IncompleteRead: the transform lets Spark stop reading early; names spans and transform.
    """
    if unread := set(spans) - {read.span for read in reads}:
        raise SpansNotReadToTheEnd(
            region=batch.region, seq=batch.seq, transform=transform, spans=tuple(sorted(unread))
        )
