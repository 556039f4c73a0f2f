"""What the suite's workers share: files that are there, and no slow import in each of them."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.sharing import FIRST, SPREAD, TESTS, TOGETHER

ALONE = {"dags/wiring.py", "dags/lineage.py", "support/some_dags.py"}
"""Programs, and what Airflow itself imports."""


def test_every_file_that_has_a_place_is_there() -> None:
    assert [file for file in {*FIRST, *SPREAD, *TOGETHER} if not (TESTS / file).exists()] == []


def test_no_module_imports_airflow_as_it_is_collected() -> None:
    """Each worker would: seven CPU seconds. Import it inside a test or a fixture."""
    found = [
        (path.name, name)
        for path in TESTS.rglob("*.py")
        if path.relative_to(TESTS).as_posix() not in ALONE
        for name in imported(path)
        if f"{name}.".startswith(("airflow.", "tidemark.airflow."))
    ]
    assert found == []


def imported(path: Path) -> Iterator[str]:
    """The modules that this one's own statements import; not those of `if TYPE_CHECKING`."""
    for one in ast.parse(path.read_text()).body:
        if isinstance(one, ast.Import):
            yield from (alias.name for alias in one.names)
        elif isinstance(one, ast.ImportFrom):
            yield from (f"{one.module}.{alias.name}" for alias in one.names)
