"""What a replay moves in the publishing transaction: rows as every batch does.

Dead letters that failed again stay where they are.
"""

from dataclasses import dataclass

from psycopg2 import sql

from tidemark.model.batch import Batch, Contribution
from tidemark.postgres.session import Cursor
from tidemark.protocol.ports import Deciding
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
