"""What the suite's workers share: files that are there, and no slow import in each of them."""

import pytest
from tests.support.sharing import FIRST, IMPORTED_AIRFLOW, SPREAD, TESTS, TOGETHER


def test_every_file_that_has_a_place_is_there() -> None:
    assert [file for file in {*FIRST, *SPREAD, *TOGETHER} if not (TESTS / file).exists()] == []


def test_no_module_imports_airflow_as_it_is_collected(pytestconfig: pytest.Config) -> None:
    """Each worker would: seven CPU seconds. Import it inside a test or a fixture."""
    assert not pytestconfig.stash[IMPORTED_AIRFLOW]
