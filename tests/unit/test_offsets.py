import pytest

from tidemark.model.offsets import Span, spans_in_ranges


@pytest.mark.parametrize(("start", "end"), [(5, 5), (6, 5), (-1, 5)])
def test_an_empty_a_reversed_and_a_negative_span_are_refused(start: int, end: int) -> None:
    with pytest.raises(ValueError):
        Span("t", 0, start, end)


def test_spans_with_the_same_offsets_are_named_together() -> None:
    spans = [Span("t", n, 0, 9) for n in (3, 1, 2, 7)] + [Span("t", 4, 5, 9), Span("s", 1, 0, 9)]
    assert spans_in_ranges(spans) == "s[1]@[0, 9), t[1-3,7]@[0, 9), t[4]@[5, 9)"
    assert spans_in_ranges(spans[:1]) == str(spans[0])
