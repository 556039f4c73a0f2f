import pytest

from tidemark.model.offsets import Offsets, Span, TopicPartition
from tidemark.model.plan import plan, share

A, B, C = (TopicPartition("t", number) for number in range(3))


@pytest.mark.parametrize(
    ("backlog", "max_records", "expected"),
    [
        ({A: 10, B: 10}, 10, {A: 5, B: 5}),
        ({A: 2, B: 10}, 10, {A: 2, B: 8}),
        ({A: 1, B: 2, C: 30}, 12, {A: 1, B: 2, C: 9}),
        ({A: 3, B: 3}, 100, {A: 3, B: 3}),
        ({A: 5}, 1, {A: 1}),
        ({}, 10, {}),
    ],
)
def test_what_a_short_partition_leaves_goes_to_the_others(
    backlog: Offsets, max_records: int, expected: Offsets
) -> None:
    assert share(backlog, max_records, turn=1) == expected


def test_the_remainder_goes_to_those_whose_turn_it_is() -> None:
    backlog = {A: 10, B: 10, C: 10}
    extra = [max(share(backlog, 4, turn), key=share(backlog, 4, turn).__getitem__)
             for turn in (0, 1, 2)]  # fmt: skip
    assert extra == [A, B, C]


def test_fewer_records_than_partitions_serve_one_after_the_other() -> None:
    targets = {A: 5, B: 5, C: 5}
    at = {A: 0, B: 0, C: 0}
    served = [span.partition for turn in range(3) for span in plan(at, targets, 1, turn)]
    assert served == [0, 1, 2]


def test_a_partition_that_has_reached_its_target_has_no_span() -> None:
    assert plan({A: 5, B: 0}, {A: 5, B: 3}, 10, 1) == (Span("t", 1, 0, 3),)


def test_a_partition_beyond_its_target_has_no_span() -> None:
    """A target of an older run, or a log that was truncated."""
    assert plan({A: 9}, {A: 5}, 10, 1) == ()


def test_a_partition_without_a_target_is_left_alone() -> None:
    assert plan({A: 0, B: 0}, {A: 2}, 10, 1) == (Span("t", 0, 0, 2),)
