"""A slice of a batch that a target refuses: it is rolled back, and the refusal is named."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg2
from psycopg2.extensions import cursor as Cursor

from tidemark.staging.errors import RowUnplaced
from tidemark.staging.moving import Moving
from tidemark.staging.refusal import REFERS, UNIQUE, is_refusal, target_refused


@dataclass(frozen=True, slots=True)
class Refusal:
    """The name of a target, and what of it refuses a row."""

    target: str
    detail: str
    rests_on: int = 0
    """How far it depends on other rows: 0 not at all, by a unique index 1, by references more."""


class SliceRefused(Exception):
    """A target refuses a row of a slice; the slice was rolled back."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal


@dataclass(slots=True)
class Step:
    """What is under way."""

    moving: Moving


@contextmanager
def savepoint(cursor: Cursor, movings: Sequence[Moving]) -> Iterator[Step]:
    """What happens inside stands, or nothing of it.

    Raises:
        SliceRefused: one of the targets refuses a row.
    """
    step = Step(movings[0])
    cursor.execute("SAVEPOINT slice")
    try:
        yield step
    except RowUnplaced as error:
        refusal = Refusal(step.moving.target.name, str(error))
    except psycopg2.Error as error:
        if not is_refusal(error):
            raise
        by = _refusing(error, movings, step.moving)
        rests_on = _rests_on(error.pgcode, movings.index(by))
        refusal = Refusal(by.target.name, target_refused(error, [by.target]).guard, rests_on)
    else:
        cursor.execute("RELEASE SAVEPOINT slice")
        return
    cursor.execute("ROLLBACK TO SAVEPOINT slice; RELEASE SAVEPOINT slice")
    raise SliceRefused(refusal)


def _refusing(error: psycopg2.Error, movings: Sequence[Moving], at_work: Moving) -> Moving:
    """Of a constraint that waited the one whose table it names."""
    place = error.diag.schema_name, error.diag.table_name
    named = [one for one in movings if (one.target.schema, one.target.table) == place]
    return named[0] if named else at_work


def _rests_on(code: str | None, place: int) -> int:
    """Parents stand first: what refers to none of the batch's rows rests on fewer."""
    return 2 + place if code in REFERS else int(code in UNIQUE)
