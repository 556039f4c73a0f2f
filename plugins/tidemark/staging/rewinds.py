"""The published rows of all targets of a region: a rewind removes them together."""

from dataclasses import dataclass

from psycopg2.extensions import cursor as Cursor

from tidemark.staging.deferred import all_deferred
from tidemark.staging.ports import Deciding
from tidemark.staging.references import parents_first
from tidemark.staging.rewind import PublishedRows
from tidemark.staging.undo import UpsertedRows


@dataclass(frozen=True, slots=True)
class RowsOfTargets:
    """What was published to each target."""

    parts: tuple[PublishedRows | UpsertedRows, ...]

    def count_rows(self, cursor: Cursor, after_seq: int) -> dict[str, int]:
        """Count what was published to each target after a checkpoint; see the parts."""
        return {part.target.name: part.count_rows(cursor, after_seq) for part in self.parts}

    def remove_rows(self, transaction: Deciding, after_seq: int) -> dict[str, int]:
        """Take it back, children before parents; how much of each target. See the parts.

        Deferred constraints are checked here.

        Raises:
            TargetRefused: a constraint of a target, or of a table that refers to it, keeps a row.
            Refused: see the parts.
        """
        cursor, by_name = transaction.cursor, {part.target.name: part for part in self.parts}
        targets = [part.target for part in self.parts]
        removed = dict[str, int]()
        with all_deferred(cursor, targets):
            for target in reversed(parents_first(cursor, targets)):
                removed[target.name] = by_name[target.name].remove_rows(transaction, after_seq)
        return removed
