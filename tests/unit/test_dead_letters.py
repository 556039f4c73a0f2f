"""How many of a batch's records may be dead letters."""

import pytest

from tidemark.model.dead_letters import CommonReason, Counted, Limits
from tidemark.model.errors import DeadLettersOverLimit


@pytest.mark.parametrize(
    ("records", "before", "limits", "most"),
    [
        (101, (0, 0), Limits(), 50),
        (100, (0, 0), Limits(), None),
        (100, (0, 0), Limits(max_count=0), 0),
        (1000, (0, 0), Limits(max_count=7), 7),
        (1000, (0, 0), Limits(0.001, 7), 1),
        (1000, (0, 0), Limits(1.0), 1000),
        (1000, (0, 0), Limits(0.0), 0),
        (100_000, (0, 0), Limits(0.29), 29_000),
        (60, (60, 0), Limits(), 60),
        (60, (60, 60), Limits(), 30),
        (60, (60, 10), Limits(), 50),
        (1, (100, 100), Limits(), 0),
    ],
)
def test_a_batch_may_have_as_many_as_its_limits_say(
    records: int, before: tuple[int, int], limits: Limits, most: int | None
) -> None:
    """B15."""
    assert Counted(records, 0, *before, limits).most == most


def test_a_small_batch_within_the_ratio_is_not_refused_for_what_came_before_it() -> None:
    counted = Counted(10, 5, 95, 95, Limits())
    assert counted.allows(0)
    assert not counted.allows(1)


def test_what_is_too_many_is_told_with_reasons_and_a_record() -> None:
    reasons = (
        CommonReason("NOT_AN_OBJECT", 800, "t[0]@17"),
        CommonReason("INVALID_JSON", 12, "t[1]@3"),
    )
    error = DeadLettersOverLimit(
        region="flights",
        seq=7,
        records=1000,
        dead_letters=812,
        refused=0,
        most=500,
        max_ratio=0.5,
        max_count=None,
        reasons=reasons,
    )
    assert (error.code, error.exit_code) == ("TOO_MANY_DEAD_LETTERS", 21)
    assert str(error).startswith(
        "region flights, batch 7: 812 of 1000 records are dead letters, at most 500 are allowed"
        " (dead_letters: max_ratio 0.5, no max_count). 800 NOT_AN_OBJECT, the first t[0]@17;"
        " 12 INVALID_JSON, the first t[1]@3. Nothing of the batch is published."
    )
