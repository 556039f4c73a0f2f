"""Each statement of the ledger is given the values that it names, by the names that it has."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidemark.check._grants import READER, WORKER
from tidemark.ledger import deciding
from tidemark.postgres.session import queries, query

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


WRITES = re.compile(r"\b(INSERT INTO|UPDATE|DELETE FROM|TRUNCATE) tidemark\.(\w+)")


def test_statements_write_what_their_roles_may() -> None:
    """What is asked for by a check is what all of the statements need."""
    for name, text in queries().items():
        for verb, table in WRITES.findall(text):
            assert verb.split()[0] in WORKER.get(table, WORKER[""]), name
    of_readers = WRITES.findall(query("say_doorbells"))
    assert {table for _, table in of_readers} == {*READER} - {""}


LOCKS = re.compile(r"\bFOR (NO KEY |KEY )?(UPDATE|SHARE)\b")
WRITES_REGIONS = re.compile(r"\b(UPDATE|INSERT INTO) tidemark\.regions\b")
UNDER_THE_LOCK = {"advance_head", "continue_region", "rewind_periods"}
"""Of a region whose row their transaction has: they do not wait for it."""
READS_WHAT_STAYS = {"confirm_announced", "write_sent"}
"""The seq and the uuid of a published batch; the seq that the run's own close has announced, for a
lower one is told again."""


def test_what_may_wait_for_a_region_reads_no_other_table() -> None:
    """Behind the wait it would see the region as it is now, and the other table as it was."""
    waiting = {
        name: text
        for name, text in queries().items()
        if LOCKS.search(text) or WRITES_REGIONS.search(text)
    }
    assert {"lock_region", "lockable", "create_region"} <= waiting.keys()
    assert waiting.keys() >= UNDER_THE_LOCK | READS_WHAT_STAYS
    reading = {
        name
        for name, text in waiting.items()
        if set(re.findall(r"\b(tidemark|pg_catalog)\.(\w+)", text)) != {("tidemark", "regions")}
        or len(re.findall(r"\b(SELECT|FROM|JOIN)\b", text)) > 2
    }
    assert reading == UNDER_THE_LOCK | READS_WHAT_STAYS
