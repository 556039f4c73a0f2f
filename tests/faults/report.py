"""The tables that faults and seeded bugs leave, printed at the end of a session.

A row travels with its test's report, so a worker process of pytest-xdist may have run the test.
"""

from collections.abc import Iterator
from typing import Any

import pytest

HEADS = {
    "fault table": ("step", "failpoint", "fault", "result"),
    "seeded bugs": ("seeded bug", "found by", "symptom"),
}

Row = tuple[str, ...]


def add_row(test: pytest.Item, table: str, row: Row, place: int = 0) -> None:
    """The table gets the row if the test ends well; `place` orders the rows of one function."""
    assert len(row) == len(HEADS[table])
    test.user_properties.append((table, [place, *row]))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for table, head in HEADS.items():
        rows = [row for _, row in sorted(_rows(terminalreporter.getreports("passed"), table))]
        if rows:
            terminalreporter.section(table)
            for row in (head, ("---",) * len(head), *rows):
                terminalreporter.write_line(f"| {' | '.join(row)} |")


def _rows(reports: list[Any], table: str) -> Iterator[tuple[tuple[int, int], Row]]:
    """The table's rows, each with what orders it: the line of its test, then its place."""
    for report in reports:
        if report.when == "call":
            for name, (place, *row) in report.user_properties:
                if name == table:
                    yield (report.location[1], place), tuple(row)
