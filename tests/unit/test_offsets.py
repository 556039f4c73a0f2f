import pytest

from tidemark.model.offsets import Span, TopicPartition, spans_in_ranges


def test_a_partition_is_rendered_topic_and_number() -> None:
    assert str(TopicPartition("flights", 3)) == "flights[3]"


def test_a_span_is_rendered_half_open() -> None:
    assert str(Span("flights", 3, 10, 25)) == "flights[3]@[10, 25)"


def test_a_span_has_the_width_of_its_offsets() -> None:
    span = Span("flights", 3, 10, 25)
    assert (span.width, span.topic_partition) == (15, TopicPartition("flights", 3))


@pytest.mark.parametrize(("start", "end"), [(5, 5), (6, 5), (-1, 5)])
def test_an_empty_a_reversed_and_a_negative_span_are_refused(start: int, end: int) -> None:
    with pytest.raises(ValueError):
        Span("t", 0, start, end)


def test_spans_are_ordered_by_topic_partition_and_start() -> None:
    spans = [Span("b", 0, 0, 1), Span("a", 1, 5, 6), Span("a", 1, 2, 3), Span("a", 0, 9, 10)]
    assert sorted(spans) == [spans[3], spans[2], spans[1], spans[0]]


def test_partitions_sort_by_number_and_not_by_text() -> None:
    assert sorted([TopicPartition("t", 10), TopicPartition("t", 9)])[0].partition == 9


def test_spans_with_the_same_offsets_are_named_together() -> None:
    spans = [Span("t", n, 0, 9) for n in (3, 1, 2, 7)] + [Span("t", 4, 5, 9), Span("s", 1, 0, 9)]
    assert spans_in_ranges(spans) == "s[1]@[0, 9), t[1-3,7]@[0, 9), t[4]@[5, 9)"
    assert spans_in_ranges(spans[:1]) == str(spans[0])
