"""What replays move, in the publishing transaction.

Of dead letters: rows as every batch does, and dead letters that stay where they are. Of a batch
that is read again: its rows and dead letters are replaced.
"""

from dataclasses import dataclass

from psycopg2 import sql

from tidemark.model.batch import SET_ASIDE, Batch, Contribution, Rows
from tidemark.postgres.session import Cursor
from tidemark.protocol.ports import Deciding
from tidemark.staging._references import find_acting_keys, parents_first
from tidemark.staging.errors import ReplacedRowsReferred
from tidemark.staging.move import move_dead_letters
from tidemark.staging.refusal import all_deferred
from tidemark.staging.rewind import AppendedRows
from tidemark.staging.target import Target
from tidemark.staging.target_writer import TargetWriters

# chosen no longer: what is left of the choice became rows
_KEEP = sql.SQL("""
UPDATE tidemark.dead_letters d
SET reason = s.reason, detail = s.detail, chosen_seq = NULL, kept_seq = {seq}
FROM {dead_letters} s JOIN unnest(
    {members}::bigint[], {attempts}::bigint[], {topics}::text[], {partitions}::int[]
) AS r (member, attempt, topic, partition) USING (member, attempt, topic, partition)
WHERE d.region = {region} AND d.chosen_seq = {seq} AND d.replayed_seq IS NULL
  AND d.topic = s.topic AND d.partition = s.partition AND d."offset" = s."offset"
""")
_FORGET_ASIDE = sql.SQL("DELETE FROM {dead_letters} WHERE reason = {aside}")


@dataclass(frozen=True, slots=True)
class ReplayWriters(TargetWriters):
    """Moves what a replay has staged. Only for rows that are appended."""

    def keep_dead_letters(
        self, transaction: Deciding, batch: Batch, contribution: Contribution
    ) -> int:
        """Give each dead letter that failed again its new reason; return how many."""
        cursor: Cursor = transaction.cursor
        reads, staging = contribution.reads, batch.staging
        cursor.execute(
            _KEEP.format(
                dead_letters=sql.Identifier(staging.schema, staging.dead_letters),
                members=sql.Literal([read.member for read in reads]),
                attempts=sql.Literal([read.attempt for read in reads]),
                topics=sql.Literal([read.span.topic for read in reads]),
                partitions=sql.Literal([read.span.partition for read in reads]),
                region=sql.Literal(batch.region),
                seq=sql.Literal(batch.seq),
            )
        )
        return cursor.rowcount

    def remove_batch(self, transaction: Deciding, batch: Batch) -> Rows:
        """Delete the batch's rows, children before parents; how many of each target.

        Raises:
            TargetRefused: see `AppendedRows.remove_rows` and `refuse_referred`.
        """
        cursor, removed = transaction.cursor, dict[str, int]()
        targets = [writer.target for writer in self.writers]
        with all_deferred(cursor, targets):
            for target in reversed(parents_first(cursor, targets)):
                refuse_referred(cursor, target, batch.seq)
                rows = AppendedRows(target, batch.seq)
                removed[target.name] = rows.remove_rows(transaction, batch.seq - 1)
        return removed

    def replace_dead_letters(self, transaction: Deciding, batch: Batch) -> int:
        """Move the new dead letters, without the records that were set aside; return how many."""
        staging, cursor = batch.staging, transaction.cursor
        dead_letters = sql.Identifier(staging.schema, staging.dead_letters)
        cursor.execute(
            _FORGET_ASIDE.format(dead_letters=dead_letters, aside=sql.Literal(SET_ASIDE))
        )
        return move_dead_letters(cursor, staging, batch.region, batch.seq)


def refuse_referred(cursor: Cursor, target: Target, seq: int) -> None:
    """Refuse to delete rows of a batch that come back alone.

    Raises:
        TargetRefused: a foreign key would delete or change other rows with them.
    """
    if acting := find_acting_keys(cursor, target):
        raise ReplacedRowsReferred(target=str(target), seq=seq, acting=acting)
