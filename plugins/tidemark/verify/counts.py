"""The ledger's counts of a batch, compared with those of another place."""

from collections.abc import Iterator, Sequence

from tidemark.ledger.looks import Published, PublishedSpan
from tidemark.model.batch import SpanRead
from tidemark.verify.report import Difference, Kind

Spans = Sequence[PublishedSpan]


def counted(published: Published, spans: Spans) -> Iterator[Difference]:
    """Each contradiction among the ledger's counts; needs no Kafka."""
    records = sum(one.records for one in spans)
    letters = sum(one.dead_letters for one in spans) + published.refused
    who = "its spans counted"
    yield from difference(published, "records", published.records, records, who)
    yield from difference(published, "dead letters", published.dead_letters, letters, who)


def difference(
    published: Published, what: str, count: int, found: int, who: str
) -> Iterator[Difference]:
    """Nothing, if the ledger's count is what `who` found."""
    if count != found:
        text = f"the ledger counted {count} {what}, {who} {found}"
        yield Difference(Kind.miscounted, "ledger", published.seq, "", text)


def miscounted_replay(seq: int, replayed: int, records: int) -> Iterator[Difference]:
    """Nothing, if as many dead letters are marked as the replay counted."""
    if replayed != records:
        text = f"the ledger counted {replayed} replayed dead letters, and {records} are there"
        yield Difference(Kind.miscounted, "ledger", seq, "", text)


def miscounted(spans: Spans, reads: Sequence[SpanRead]) -> Iterator[Difference]:
    """Each span whose counts, read again, are not the ledger's."""
    counted = {read.span: (read.records, read.dead_letters) for read in reads}
    for one in spans:
        records, letters = counted[one.span]
        if (records, letters) != (one.records, one.dead_letters):
            text = (
                f"the ledger counted {one.records} records and {one.dead_letters} dead letters,"
                f" Kafka now has {records} and {letters}"
            )
            yield Difference(Kind.miscounted, "ledger", None, str(one.span), text)
