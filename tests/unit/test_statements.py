"""Each statement of the ledger is given the values that it names, by the names that it has."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidemark.ledger import deciding
from tidemark.postgres.session import query

ROOM = Path(deciding.__file__).parent
RUNS = {"_run", "_one", "_number", "_rows", "_found_under_lock"}
OF_ITS_TRANSACTION = {"region", "epoch"}
"""Given with all that a transaction decides."""


def statements() -> Iterator[tuple[str, set[str]]]:
    """The calls that spell a statement's name and all of its values."""
    for file in sorted(ROOM.glob("*.py")):
        for call in ast.walk(ast.parse(file.read_text())):
            match call:
                case ast.Call(ast.Attribute(attr=name), [ast.Constant(str(statement)), *_]):
                    given = {one.arg for one in call.keywords}
                    if name in RUNS and None not in given:
                        yield statement, {one for one in given if one}


CALLS = [*statements()]


@pytest.mark.parametrize(("statement", "given"), CALLS, ids=[name for name, _ in CALLS])
def test_a_statement_is_given_what_it_names(statement: str, given: set[str]) -> None:
    named = set(re.findall(r"%\((\w+)\)s", str(query(statement))))
    assert named - OF_ITS_TRANSACTION == given - OF_ITS_TRANSACTION


def test_most_statements_are_seen() -> None:
    assert len(CALLS) > 60
