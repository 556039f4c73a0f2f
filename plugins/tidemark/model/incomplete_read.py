"""A batch that was not read whole."""

from collections.abc import Iterable

from tidemark.model.batch import Batch, SpanRead
from tidemark.model.errors import ReadsLost, SpansNotReadToTheEnd
from tidemark.model.offsets import Span


def refuse_unread(
    batch: Batch,
    spans: Iterable[Span],
    reads: Iterable[SpanRead],
    transform: str | None,
    *,
    is_staged: bool,
) -> None:
    """Every span has a complete read.

    `is_staged` says whether the rows are there that the job has staged.

    Raises:
        StagingLost: no transform can be to blame, or rows are gone with the reads.
        IncompleteRead: the transform lets Spark stop reading early; names spans and transform.
    """
    if not (unread := set(spans) - {read.span for read in reads}):
        return
    found = tuple(sorted(unread))
    if transform is None or not is_staged:
        raise ReadsLost(region=batch.region, seq=batch.seq, spans=found)
    raise SpansNotReadToTheEnd(region=batch.region, seq=batch.seq, transform=transform, spans=found)
