import pytest

from tidemark.model.errors import BoundOutOfRange
from tidemark.model.plan import Bounds, slow_start


@pytest.mark.parametrize("name", ["max_records", "max_batches", "max_seconds"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_limit_must_be_positive(name: str, value: int) -> None:
    with pytest.raises(BoundOutOfRange) as refused:
        Bounds(**({"max_records": 10} | {name: value}))
    assert (refused.value.name, refused.value.value) == (name, value)


@pytest.mark.parametrize("name", ["max_records", "max_batches", "max_seconds", "max_bytes"])
def test_a_limit_is_one_that_the_ledger_can_hold(name: str) -> None:
    Bounds(**({"max_records": 10} | {name: 2**63 - 1}))
    with pytest.raises(BoundOutOfRange) as refused:
        Bounds(**({"max_records": 10} | {name: 2**63}))
    assert (refused.value.name, refused.value.limit) == (name, 2**63 - 1)


def test_a_run_has_no_limit_unless_told() -> None:
    assert Bounds(10) == Bounds(10, None, None)


@pytest.mark.parametrize(
    ("since_reset", "expected"),
    [(None, 160), (0, 10), (1, 20), (2, 40), (3, 80), (4, 160), (9, 160)],
)
def test_batches_grow_after_a_reset(since_reset: int | None, expected: int) -> None:
    assert slow_start(160, since_reset) == expected


def test_a_slow_start_reads_at_least_one_record() -> None:
    assert slow_start(3, 0) == 1
