"""The published JSON schemas: what commands print is held against them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "schemas"

OPTIONS = {
    ("dead-letters", "--export"): "dead-letters-export",
    ("dead-letters", "--purge"): "dead-letters-purge",
    ("migrate", "--sql"): "migrate-sql",
}
GROUPS = ("local", "region")


def schema_name(arguments: Sequence[str], printed: Any) -> str:
    """Which schema the output of a command line follows."""
    command = arguments[0]
    if isinstance(printed, dict) and printed.keys() == {"error"}:
        return "error"
    if command in GROUPS:
        return f"{command}-{arguments[1]}"
    if command == "status":
        return "status-all" if isinstance(printed, list) else "status"
    if command == "preview" and "inferred" in printed:
        return "preview-inferred"
    if command == "preview" and "rows_by_target" in printed:
        return "preview-targets"
    found = [
        name for (of, option), name in OPTIONS.items() if of == command and option in arguments
    ]
    return found[0] if found else command


def validate(arguments: Sequence[str], printed: Any) -> None:
    """What was printed follows its schema."""
    schema = json.loads((FOLDER / f"{schema_name(arguments, printed)}.json").read_text())
    Draft202012Validator(schema).validate(printed)
