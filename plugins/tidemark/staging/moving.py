"""One target's part of a publish: what every mode does, so that nobody else knows the modes."""

from typing import Protocol

from psycopg2 import sql

from tidemark.model.batch import Moved
from tidemark.staging.appending import Appending
from tidemark.staging.target import Target

EVERYTHING = sql.SQL("true")
"""Leaves no record out."""


class Moving(Protocol):
    """Prepared, then applied as a whole or in slices of records, then finished."""

    target: Target

    @property
    def is_final(self) -> bool:
        """Whether slices that went in stay right without those that are refused."""

    def prepare(self, wanted: sql.Composable) -> None:
        """Read what is staged; `wanted` is the condition of the records that are not left out."""

    def places(self) -> sql.Composed:
        """A SELECT of what `apply` takes: coordinates of the record, and the ctid `at`."""

    def apply(self, at: sql.Composable | None = None) -> int:
        """Change the target by the rows whose ctids are in `at`, or by all; how many it now has.

        Raises:
            psycopg2.Error: the target refuses a row if `is_refusal` is true of it.
        """

    def finish(self, written: int) -> Moved:
        """What became of the rows, once all of them are applied."""

    def trial(self) -> Appending:
        """Takes the staged rows one by one, to find those that can't be prepared."""
