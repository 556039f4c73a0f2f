"""Corrupt ranges: what an override names, what is refused, and where a run stops for them."""

import pytest

from tidemark.model.corruption import (
    accepted_ranges,
    ahead,
    reached,
    refuse_ranges_not_due,
    stopped,
)
from tidemark.model.errors import (
    AcceptedRangeNotDue,
    AcceptedRangesOverlap,
    AcceptedTextHasNoRange,
)
from tidemark.model.offsets import Span, TopicPartition

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def span(start: int, end: int, partition: int = 0) -> Span:
    return Span("t", partition, start, end)


def test_overrides_name_ranges_once_and_in_order() -> None:
    found = accepted_ranges(
        [
            "accept_corrupt t[1]@[5, 6), t[0]@[20, 30)",
            "accept_data_loss",
            "accept_corrupt t[0]@[10,20)\nt[0]@[20, 30)",
        ]
    )
    assert found == (span(10, 20), span(20, 30), span(5, 6, 1))


@pytest.mark.parametrize(
    "text", ["", "t[0]@10", "t[0]@[10, 20]", "t@[10, 20)", "t[0]@[10, 20) and more"]
)
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(AcceptedTextHasNoRange):
        accepted_ranges([f"accept_corrupt {text}"])


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(AcceptedTextHasNoRange) as refused:
        accepted_ranges(["accept_corrupt t[0]@[20, 20)"])
    assert refused.value.given == "t[0]@[20, 20)"


@pytest.mark.parametrize(
    "ranges",
    [[span(10, 20)], [span(10, 40)], [span(10, 20), span(20, 40)], [span(9, 20, 1), span(10, 20)]],
)
def test_ranges_between_ledger_and_target_offset_are_accepted(ranges: list[Span]) -> None:
    refuse_ranges_not_due("r", ranges, {FIRST: 10, SECOND: 0}, {FIRST: 40, SECOND: 40})


@pytest.mark.parametrize(
    ("wrong", "due"),
    [(span(9, 20), (10, 40)), (span(30, 41), (10, 40)), (span(10, 20, 1), (None, None))],
)
def test_a_range_that_the_run_does_not_come_to_is_refused(
    wrong: Span, due: tuple[int | None, int | None]
) -> None:
    with pytest.raises(AcceptedRangeNotDue) as refused:
        refuse_ranges_not_due("r", [wrong], {FIRST: 10}, {FIRST: 40})
    assert refused.value.span == wrong
    assert (refused.value.next_offset, refused.value.end) == due


@pytest.mark.parametrize("other", [span(10, 25), span(19, 30), span(12, 13)])
def test_ranges_that_overlap_are_refused(other: Span) -> None:
    """What is left of the run would be counted too low."""
    with pytest.raises(AcceptedRangesOverlap) as refused:
        refuse_ranges_not_due("r", [other, span(10, 20)], {FIRST: 10}, {FIRST: 40})
    assert {refused.value.one, refused.value.other} == {other, span(10, 20)}


def test_ranges_are_reached_one_after_the_other() -> None:
    ranges = [span(20, 30), span(10, 20), span(31, 40), span(5, 9, 1)]
    assert reached(ranges, {FIRST: 10, SECOND: 6}) == [span(10, 20), span(20, 30)]
    assert reached(ranges, {FIRST: 9}) == []


def test_a_run_stops_at_the_next_range_and_not_at_one_behind_it() -> None:
    ranges, targets = [span(30, 40), span(10, 20)], {FIRST: 50, SECOND: 7}
    for at, end in [(0, 10), (10, 10), (20, 30), (40, 50)]:
        assert stopped(targets, {FIRST: at, SECOND: 0}, ranges) == {FIRST: end, SECOND: 7}


def test_a_range_that_the_ledger_has_passed_is_not_ahead() -> None:
    assert ahead([span(10, 20), span(30, 40)], {FIRST: 20}) == [span(30, 40)]
