import re
import subprocess
import sys
from pathlib import Path

import pytest

from tidemark import errors
from tidemark.errors import MissingExtra, TidemarkError, by_code, packages_of

PACKAGE = Path(errors.__file__).parent
TREE = [
    found for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, TidemarkError) and "code" in vars(found)
]  # fmt: skip
DOCUMENTED = {
    name: int(code) for name, code in re.findall(r"─ (\w+) +(\d+) ", errors.__doc__ or "")
}


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    assert {kind.__name__: kind.exit_code for kind in TREE if kind is not TidemarkError} == (
        DOCUMENTED
    )


def test_all_of_the_tree_are_found_by_their_codes() -> None:
    """A tree that is listed in part would lose an error on its way out of a task."""
    assert set(by_code().values()) == {*TREE} - {TidemarkError}


def test_what_a_retry_cannot_help_has_a_code_of_its_own() -> None:
    codes = [kind.exit_code for kind in TREE if kind.exit_code >= 10]
    assert len(codes) == len(set(codes)) == 13


@pytest.mark.parametrize("kind", TREE)
def test_an_exit_code_is_a_retry_wrong_usage_or_final(kind: type[TidemarkError]) -> None:
    assert kind.exit_code in (1, 2) or 10 <= kind.exit_code < 64


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.Fenced, "FENCED"),
        (errors.IncompleteRead, "INCOMPLETE_READ"),
        (errors.TidemarkError, "TIDEMARK_ERROR"),
    ],
)
def test_the_code_is_the_name_in_capitals(kind: type[TidemarkError], code: str) -> None:
    assert kind("x").code == code


def test_a_missing_package_is_named_with_the_extra_that_brings_it() -> None:
    with pytest.raises(MissingExtra) as caught, packages_of("testing", "a check of DDL"):
        import no_such_package  # noqa: F401
    assert caught.value.fields() == {
        "feature": "a check of DDL",
        "extra": "testing",
        "cause": "No module named 'no_such_package'",
    }
    assert str(caught.value) == (
        "a check of DDL needs packages that are missing (No module named 'no_such_package'):"
        " install tidemark[testing]"
    )


def test_a_task_learns_that_postgres_is_gone_without_an_orm() -> None:
    """What that means is listed once; Spark starts a Python process for each task."""
    asked = "import sys, tidemark.spark.writer, tidemark.spark.journal; print(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, check=True
    )
    assert "tidemark.postgres.errors" in found.stdout.split()
    assert "sqlalchemy" not in found.stdout.split()
    listed = [
        path for path in PACKAGE.rglob("*.py") if "psycopg2.OperationalError," in path.read_text()
    ]
    assert [path.name for path in listed] == ["errors.py"]
