"""What a replay moves: rows as every batch does, and dead letters that stay where they are."""

from dataclasses import dataclass

from psycopg2 import sql

from tidemark.model.batch import Batch, Contribution, Moved
from tidemark.staging.movers import Movers
from tidemark.staging.ports import Deciding

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
class ReplayMover:
    """Moves a replay's staging in the publishing transaction. Only for rows that are appended."""

    movers: Movers

    def move_rows(self, transaction: Deciding, batch: Batch, room: int | None) -> dict[str, Moved]:
        """Insert the winners' rows under the batch's seq, see `Movers.move_rows`."""
        return self.movers.move_rows(transaction, batch, room)

    def keep_dead_letters(
        self, transaction: Deciding, batch: Batch, contribution: Contribution
    ) -> int:
        """What failed again has its new reason; return how many."""
        reads, staging = contribution.reads, batch.staging
        transaction.cursor.execute(
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
        return transaction.cursor.rowcount
