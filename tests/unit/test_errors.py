"""Errors are data: a code with its facts, a case with its fields, a text that is made of them."""

import pickle
import subprocess
import sys
from datetime import date

import pytest

from tidemark.errors import (
    CorruptRecord,
    Fenced,
    InvalidSettings,
    MissingExtra,
    Refused,
    TidemarkError,
    by_code,
    error_as_dict,
    error_from_dict,
    packages_of,
)


class GroupIsTaken(Refused, text="region {region}: {groups:list}"):
    """The case of these tests."""

    region: str
    groups: tuple[str, ...]
    limit: int | None = None


class TableIsTaken(
    Refused,
    text="{table!q} ({key!q:list}) of {regions:and}: {moment.year}, {rows:,} rows, {{}}, {cause!r}",
):
    """Another: what a text may do with its fields."""

    table: str
    key: tuple[str, ...]
    regions: tuple[str, ...]
    moment: date
    rows: int
    cause: str


class RegionIsAway(Refused, text="{_region} is away"):
    """A third: a part of its text has branches."""

    region: str | None

    @property
    def _region(self) -> str:
        return "some region" if self.region is None else f"region {self.region}"


@pytest.mark.parametrize("kind", by_code().values())
def test_an_exit_code_is_a_retry_wrong_usage_or_final(kind: type[TidemarkError]) -> None:
    assert kind.exit_code in (1, 2) or 10 <= kind.exit_code < 64


def test_what_a_retry_cannot_help_has_a_code_of_its_own() -> None:
    codes = [kind.exit_code for kind in by_code().values() if kind.exit_code >= 10]
    assert len(codes) == len(set(codes))


def test_a_code_is_the_name_of_its_class_in_capitals() -> None:
    assert by_code()["INCOMPLETE_READ"].__name__ == "IncompleteRead"
    assert by_code()["FENCED"] is Fenced


def test_a_case_has_the_facts_of_its_code_and_its_own_fields() -> None:
    error = GroupIsTaken(region="flights", groups=("a", "b"))
    assert (error.code, error.exit_code, error.case) == ("REFUSED", 16, "GroupIsTaken")
    assert error.fields() == {"region": "flights", "groups": ["a", "b"], "limit": None}
    assert str(error) == "region flights: a, b"


def test_a_text_names_fields_and_how_they_are_shown() -> None:
    error = TableIsTaken(
        table='a"b',
        key=("c", "d"),
        regions=("e", "f"),
        moment=date(2026, 1, 31),
        rows=7000,
        cause="g",
    )
    assert str(error) == '"a""b" ("c", "d") of e and f: 2026, 7,000 rows, {}, \'g\''


def test_a_text_names_properties_of_its_class_which_are_no_fields() -> None:
    error = RegionIsAway(region=None)
    assert (str(error), error.fields()) == ("some region is away", {"region": None})


@pytest.mark.parametrize("value", ["{region}", "{", "{0.__class__}", "%s"])
def test_a_value_of_a_field_is_no_text(value: str) -> None:
    assert str(GroupIsTaken(region=value, groups=(value,))) == f"region {value}: {value}"


@pytest.mark.parametrize(
    "text", ["{nobody}", "{}", "{region", "region}", "{region:wide}", "{region!s}", "{region[0]}"]
)
def test_a_class_is_not_made_with_a_text_that_its_fields_do_not_give(text: str) -> None:
    with pytest.raises((TypeError, ValueError)):

        class Wrong(Refused, text=text):
            region: str


def test_a_case_survives_a_process_of_pythons_pool() -> None:
    error = pickle.loads(pickle.dumps(GroupIsTaken(region="flights", groups=("a",))))
    assert isinstance(error, GroupIsTaken)
    assert error.groups == ("a",)


def test_an_error_is_told_to_a_program_and_retold_by_its_code() -> None:
    first = error_as_dict(GroupIsTaken(region="flights", groups=("a",)))
    error = pickle.loads(pickle.dumps(error_from_dict(first)))
    assert type(error) is Refused
    assert error_as_dict(error) == first
    again = error_from_dict(error_as_dict(CorruptRecord(topic="t", partition=1, offset=5)))
    assert isinstance(again, CorruptRecord)
    assert (again.topic, again.partition, again.offset) == ("t", 1, 5)


def test_a_missing_package_is_named_with_the_extra_that_brings_it() -> None:
    with pytest.raises(MissingExtra) as caught, packages_of("testing", "a check of DDL"):
        import no_such_package  # type: ignore[import-not-found]  # noqa: F401
    assert caught.value.fields() == {
        "feature": "a check of DDL",
        "extra": "testing",
        "cause": "No module named 'no_such_package'",
    }


def test_a_task_learns_that_postgres_is_gone_without_an_orm() -> None:
    """Spark starts a Python process for each task."""
    asked = "import sys, tidemark.spark._writer, tidemark.spark.reader; print(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, check=True
    )
    assert "tidemark.postgres.errors" in found.stdout.split()
    assert "sqlalchemy" not in found.stdout.split()


def test_wrong_settings_are_values_that_are_wrong() -> None:
    """Pydantic takes a ValueError of a check for a fault of the file."""
    assert issubclass(InvalidSettings, ValueError)
