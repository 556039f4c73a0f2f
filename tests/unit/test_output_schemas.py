"""B22: the published JSON schemas. Outputs follow them wherever a test takes one: `answer`."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer
from jsonschema import Draft202012Validator, SchemaError, ValidationError
from scripts.docs.output_schemas import FOLDER, schemas, text
from tests.support.schemas import OPTIONS, schema_name, validate

from tidemark.cli.main import app
from tidemark.model.plain import plain
from tidemark.views.status import PartitionStatus, RegionStatus
from tidemark.views.verdict import verdict_of

SCHEMAS = schemas()


def commands(of: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if hasattr(of, "resolve_command"):
        context = typer.Context(of)
        for name in of.list_commands(context):
            yield from commands(of.resolve_command(context, [name])[1], (*path, name))
    else:
        yield "-".join(path), of


def printing_json() -> set[str]:
    """The commands that have an option `-o`."""
    return {
        name
        for name, command in commands(typer.main.get_command(app))
        if any("-o" in one.opts for one in command.params)
    }


def test_the_files_are_those_of_the_code() -> None:
    """B22"""
    found = {path.stem: path.read_text() for path in FOLDER.glob("*.json")}
    assert found == {name: text(schema) for name, schema in SCHEMAS.items()}, "run: make generated"


def test_every_command_that_prints_json_has_a_schema() -> None:
    """B22: and no schema is of none."""
    assert printing_json() - SCHEMAS.keys() == set()
    besides = {*OPTIONS.values(), "error", "status-all", "preview-inferred", "preview-targets"}
    assert SCHEMAS.keys() - printing_json() - besides == set()


def test_every_schema_is_one() -> None:
    """B22"""
    for name, schema in SCHEMAS.items():
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            pytest.fail(f"{name}: {error.message}")


def test_what_is_missing_or_new_is_seen() -> None:
    """B22: a key that a command adds or drops breaks readers: a test must say so."""
    status = RegionStatus("r", "closed", 1, partitions=(PartitionStatus("t", 0, 1, 1, 1),))
    partitions = [plain(one) | {"lag": 0, "drift": 0} for one in status.partitions]
    good = plain(status) | {"lag": 0, "drifting": 0, "partitions": partitions}
    good["verdict"] = plain(verdict_of(status))
    validate(["status", "r"], good)
    for bad in (
        good | {"new": 1},
        {key: value for key, value in good.items() if key != "lag"},
        good | {"epoch": "1"},
        good | {"partitions": [plain(status.partitions[0])]},
    ):
        with pytest.raises(ValidationError):
            validate(["status", "r"], bad)
    assert schema_name(["region", "list"], []) == "region-list"
