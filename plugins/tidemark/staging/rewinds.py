"""The published rows of all targets of a region: a rewind removes them together."""

from collections.abc import Mapping
from dataclasses import dataclass

from psycopg2.extensions import cursor as Cursor

from tidemark.postgres.session import query
from tidemark.staging.deferred import all_deferred
from tidemark.staging.errors import KeptRowsPruned, PublishedOtherwiseBefore
from tidemark.staging.ports import Deciding
from tidemark.staging.references import parents_first
from tidemark.staging.rewind import PublishedRows
from tidemark.staging.target import Target
from tidemark.staging.undo import UpsertedRows

Way = tuple[str, ...] | None
"""The key by which a batch was upserted; None: its rows were appended."""


@dataclass(frozen=True, slots=True)
class RowsOfTargets:
    """What was published to each target, and how: the ledger knows, whatever the file says now."""

    region: str
    targets: tuple[Target, ...]
    deletes: bool = True
    """Whether this role is to take them back: then it must have the right, also for a dry run."""

    def count_rows(self, cursor: Cursor, after_seq: int) -> dict[str, int]:
        """Count what was published to each target after a checkpoint; see the parts.

        Raises:
            Refused: what keys were is no longer kept; or batches after it were published in
                several ways. See also the parts.
        """
        parts = self._parts(cursor, after_seq)
        return {name: part.count_rows(cursor, after_seq) for name, part in parts.items()}

    def remove_rows(self, transaction: Deciding, after_seq: int) -> dict[str, int]:
        """Take it back, children before parents; how much of each target. See the parts.

        Deferred constraints are checked here.

        Raises:
            TargetRefused: a constraint of a target, or of a table that refers to it, keeps a row.
            Refused: see `count_rows`.
        """
        cursor = transaction.cursor
        parts, removed = self._parts(cursor, after_seq), dict[str, int]()
        with all_deferred(cursor, self.targets):
            for target in reversed(parents_first(cursor, self.targets)):
                removed[target.name] = parts[target.name].remove_rows(transaction, after_seq)
        return removed

    def _parts(self, cursor: Cursor, after_seq: int) -> Mapping[str, PublishedRows | UpsertedRows]:
        return {
            one.name: self._part(one, self._way(cursor, one, after_seq)) for one in self.targets
        }

    def _part(self, target: Target, key: Way) -> PublishedRows | UpsertedRows:
        if key:
            return UpsertedRows(self.region, target, key)
        return PublishedRows(target, deletes=self.deletes)

    def _way(self, cursor: Cursor, target: Target, after_seq: int) -> Way:
        """How all batches after a checkpoint were published to a target."""
        values = {"region": self.region, "target": target.name, "seq": after_seq}
        cursor.execute(query("published_ways"), values)
        found = cursor.fetchall() or [(0, 0, None, None)]  # the region has published nothing
        undo_pruned_seq, oldest_seq, *_ = found[0]
        if after_seq < undo_pruned_seq:
            raise KeptRowsPruned(region=self.region, target=str(target), oldest_seq=oldest_seq)
        newest, *others = [key and tuple(key) for *_, key, _ in found]
        if others:
            raise PublishedOtherwiseBefore(
                region=self.region,
                target=str(target),
                after_seq=after_seq,
                seq=found[1][-1],
                keys=(others[0], newest),
            )
        return newest
