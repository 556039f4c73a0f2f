"""The picture of a region's newest runs."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from tidemark.ledger.history import Driver
from tidemark.page.region import DrawnRuns, drawn

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def ticks(took: timedelta) -> list[int]:
    """The seconds that stand below the picture of one run."""
    end = NOON + took
    driver = Driver(epoch=1, member=1, name="drain 0", state="done", joined=NOON, seen=end)
    runs = DrawnRuns("flights", [driver], [], [], end, is_over=True)
    return [int(found) for found in re.findall(r">(\d+) s</text>", drawn(runs))]


@pytest.mark.parametrize(
    ("took", "step"),
    [
        (timedelta(seconds=12), 1),
        (timedelta(hours=12), 3600),
        (timedelta(days=12), 86_400),
        (timedelta(days=12, seconds=1), 2 * 86_400),
        (timedelta(days=1000), 84 * 86_400),
    ],
)
def test_however_long_a_run_took_its_picture_has_some_ticks(took: timedelta, step: int) -> None:
    found = ticks(took)
    assert found == [number * step for number in range(len(found))]
    assert 2 <= len(found) <= 13
