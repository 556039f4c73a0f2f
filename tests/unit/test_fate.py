"""What a retry can do about each condition of Postgres."""

import re

import psycopg2
import pytest
from psycopg2 import errorcodes

from tidemark.postgres.fate import OF_CLASS, OF_CODE, Fate, fate, fate_of
from tidemark_local.postgres import packaged

STATES = [
    value
    for name, value in vars(errorcodes).items()
    if name.isupper() and isinstance(value, str) and len(value) == 5
]


def test_every_condition_that_the_client_knows_has_its_fate() -> None:
    assert len(STATES) > 200
    assert {state for state in STATES if state[:2] not in OF_CLASS} == set()


@pytest.mark.parametrize("install", ["pginstall", "pginstall18"])
def test_every_condition_of_the_server_has_its_fate(install: str) -> None:
    """G171: of a newer server the class that nobody has judged is named here."""
    listed = packaged().parents[1] / install / "share" / "postgresql" / "errcodes.txt"
    states = re.findall(r"^([0-9A-Z]{5})\s+[ESW]\s", listed.read_text(), re.MULTILINE)
    assert len(states) > 200
    assert {state for state in states if state[:2] not in OF_CLASS} == set()
    assert OF_CODE.keys() <= set(states)


@pytest.mark.parametrize(
    ("state", "where"),
    [
        ("08006", Fate.server),
        ("25006", Fate.server),
        ("25P04", Fate.server),
        ("40P01", Fate.server),
        ("53100", Fate.server),
        ("53400", Fate.server),
        ("55P03", Fate.server),
        ("57P05", Fate.server),
        ("22P05", Fate.row),
        ("23505", Fate.row),
        ("54000", Fate.row),
        ("54001", Fate.row),
        ("54011", Fate.schema),
        ("54023", Fate.schema),
        ("42703", Fate.schema),
        ("42501", Fate.right),
        ("NOWAY", Fate.row),
    ],
)
def test_a_condition_has_the_fate_of_its_cause(state: str, where: Fate) -> None:
    """G171: whatever psycopg2's class of it is; a trigger may raise codes that nobody else has."""
    assert fate_of(state) is where


def test_without_a_condition_nobody_answered() -> None:
    assert fate(psycopg2.OperationalError()) is fate(psycopg2.DatabaseError()) is Fate.server
    assert fate(psycopg2.ProgrammingError("no results to fetch")) is Fate.schema
