"""Spans are packed into about as many tasks as cores, about equally wide."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.model.offsets import Span
from tidemark.spark.source import pack

spans = st.lists(
    st.builds(
        lambda partition, start, width: Span("t", partition, start, start + width),
        st.integers(0, 50),
        st.integers(0, 10),
        st.integers(1, 1000),
    ),
    unique_by=lambda span: span.partition,
)


@given(spans, st.integers(1, 9))
def test_each_span_is_in_exactly_one_task(given_spans: list[Span], tasks: int) -> None:
    packed = pack(given_spans, tasks)
    assert sorted(span for task in packed for span in task) == sorted(given_spans)
    assert len(packed) == min(tasks, len(given_spans))
    assert all(packed)


@given(spans, st.integers(1, 9))
def test_no_task_is_wider_than_a_fair_share_and_one_span(
    given_spans: list[Span], tasks: int
) -> None:
    widest = max((span.width for span in given_spans), default=0)
    fair = sum(span.width for span in given_spans) / tasks
    assert all(
        sum(span.width for span in task) <= fair + widest for task in pack(given_spans, tasks)
    )


@given(spans, st.integers(1, 9), st.randoms())
def test_the_order_given_does_not_matter(
    given_spans: list[Span], tasks: int, random: object
) -> None:
    shuffled = list(given_spans)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert pack(shuffled, tasks) == pack(given_spans, tasks)


def test_equal_spans_are_shared_evenly() -> None:
    packed = pack([Span("t", partition, 0, 10) for partition in range(8)], 2)
    assert [len(task) for task in packed] == [4, 4]


def test_no_task_is_refused() -> None:
    with pytest.raises(ValueError):
        pack([], 0)
