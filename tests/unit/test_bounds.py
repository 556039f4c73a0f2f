import pytest

from tidemark.bounds import Bounds


@pytest.mark.parametrize("name", ["max_records", "max_batches", "max_seconds"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_limit_must_be_positive(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{name} must be positive, got {value}"):
        Bounds(**({"max_records": 10} | {name: value}))


def test_a_run_has_no_limit_unless_told() -> None:
    assert Bounds(10) == Bounds(10, None, None)
