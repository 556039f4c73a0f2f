"""Which batches `verify` reads again by one job, and which spans that job reads."""

from dataclasses import replace

from tidemark.ledger.queries import PublishedSpan
from tidemark.model.offsets import Span
from tidemark.verify._comparison import RECORDS, Begun, groups, joined
from tidemark.verify.report import BatchProof


def span(start: int, end: int, partition: int = 0, topic_id: str = "id") -> PublishedSpan:
    return PublishedSpan(Span("t", partition, start, end), topic_id, end - start, 1)


def begun(seq: int, *spans: PublishedSpan, is_readable: bool = True) -> Begun:
    records = sum(one.records for one in spans)
    return Begun(BatchProof(seq, records, records, 0), spans, is_readable)


def seqs(*batches: Begun) -> list[list[int]]:
    return [[one.proof.seq for one in group] for group in groups(batches)]


def test_batches_whose_spans_join_are_one_group() -> None:
    first, second, third = begun(1, span(0, 5), span(0, 3, 1)), begun(4, span(3, 9, 1)), begun(5)
    assert seqs(first, second, third, begun(6, span(5, 6))) == [[1, 4, 5, 6]]


def test_a_gap_an_overlap_or_another_topic_begins_a_group() -> None:
    first = begun(1, span(0, 5))
    assert seqs(first, begun(2, span(6, 9))) == [[1], [2]]
    assert seqs(first, begun(2, span(4, 9))) == [[1], [2]]
    assert seqs(first, begun(2, span(5, 9, topic_id="other"))) == [[1], [2]]
    assert seqs(first, begun(2, span(6, 9)), begun(3, span(9, 10))) == [[1], [2, 3]]


def test_a_batch_with_a_report_of_its_own_is_alone() -> None:
    first, last = begun(1, span(0, 5)), begun(3, span(6, 7))
    gone = begun(2, span(5, 6), is_readable=False)
    assert seqs(first, gone, last) == [[1], [2], [3]]
    differs = replace(gone, is_readable=True, proof=replace(gone.proof, wrong=1))
    assert seqs(first, differs, last) == [[1], [2], [3]]


def test_a_group_holds_a_bounded_number_of_records() -> None:
    half = RECORDS // 2
    batches = [begun(n, span(n * half, (n + 1) * half)) for n in range(5)]
    assert seqs(*batches, begun(5, span(5 * half, 9 * half))) == [[0, 1], [2, 3], [4], [5]]


def test_joined_spans_hold_the_sums() -> None:
    found = joined([span(0, 5), span(7, 8, 1), span(5, 9), span(9, 10)])
    assert found == [replace(span(0, 10), dead_letters=3), span(7, 8, 1)]
