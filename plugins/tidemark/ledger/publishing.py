"""What a transaction decides about unpublished batches: claims, and the publish."""

from collections.abc import Mapping, Sequence

from psycopg2.extras import Json

from tidemark.ledger.decision import Decision, counts_of
from tidemark.ledger.errors import KeyTextsChanged, TableIsAnother
from tidemark.model.batch import Batch, Moved
from tidemark.model.contribution import Contribution, SpanRead
from tidemark.model.dead_letters import JUDGED_FROM, Counted, Limits, Reason
from tidemark.postgres.session import configure
from tidemark.protocol.errors import SpanAlreadyClaimed


class Publishing(Decision):
    """Claims on unpublished batches, and their publish."""

    __slots__ = ()

    def is_unpublished(self, batch: Batch) -> bool:
        """Whether this epoch still works on the batch; this check fences every contribution."""
        return any(found[:2] == (batch.seq, self.epoch) for found in self._unpublished())

    def is_lowest(self, batch: Batch) -> bool:
        """Whether no other batch has to be published before this one."""
        return self._unpublished()[0][:2] == (batch.seq, self.epoch)

    def claim(self, batch: Batch, contribution: Contribution) -> None:
        """Claim all spans of the contribution, or none.

        Raises:
            SpanAlreadyClaimed: another contribution has claimed one of them.
        """
        number = self._write_contribution(batch, contribution)
        # Each span's foreign key looks the contribution up: while there are few, Postgres would
        # read them all for every span, and go on so in this session when they are many.
        configure(self.cursor, {"enable_seqscan": "off"}, is_local=True)
        claimed = self._claim_spans(batch, number, contribution.reads)
        configure(self.cursor, {"enable_seqscan": "on"}, is_local=True)
        if claimed != len(contribution.reads):
            raise SpanAlreadyClaimed(seq=batch.seq)
        self._run("claim_count", seq=batch.seq, claimed=claimed)

    def _claim_spans(self, batch: Batch, contribution: int, reads: Sequence[SpanRead]) -> int:
        return self._run(
            "claim_spans",
            seq=batch.seq,
            contribution=contribution,
            **counts_of(reads),
            record_ends=[read.record_end for read in reads],
            leader_epochs=[read.leader_epoch for read in reads],
        )

    def has_unclaimed(self, batch: Batch) -> bool:
        """Whether there are spans that no contribution has claimed yet."""
        return bool(self._number("has_unclaimed", seq=batch.seq))

    def winners(self, batch: Batch) -> list[tuple[int, int]]:
        """(member, attempt) of the winning task attempts of all members."""
        self._run("winners", seq=batch.seq)
        return list(self.cursor.fetchall())

    def contributed_rows(self, batch: Batch, target: str) -> int:
        """The number of a target's staged rows, as the batch's contributions counted them."""
        return self._number("contributed_rows", seq=batch.seq, target=target)

    def advance_partitions(self, batch: Batch) -> None:
        """Advance each partition from its span's start to its end; else the server raises."""
        self._run("advance_partitions", seq=batch.seq)

    def count_dead_letters(self, batch: Batch) -> Counted:
        """The counts of the batch's claimed spans, of all members, with the run's limits."""
        self._run("count_dead_letters", seq=batch.seq, judged_from=JUDGED_FROM)
        own, letters, before, letters_before, *limits = self.cursor.fetchone()  # type: ignore[misc]
        return Counted(own, letters, before, letters_before, Limits(*limits))

    def commonest_reasons(self, batch: Batch) -> list[Reason]:
        """The commonest reasons of the batch's dead letters that were moved."""
        self._run("commonest_reasons", seq=batch.seq)
        return [Reason(*row) for row in self.cursor.fetchall()]

    def publish_batch(
        self, batch: Batch, moved: Mapping[str, Moved], dead_letters_moved: int
    ) -> int:
        """Publish with these counts, which named constraints check; return the batch's records.

        `moved` is by target. One that is missing, though rows of it were contributed, is refused.
        """
        self._write_moved(batch, moved)
        return self._number(
            "publish_batch",
            seq=batch.seq,
            records_refused=sum(one.refused_records for one in moved.values()),
            dead_letters_moved=dead_letters_moved,
        )

    def keep_target(self, target: str, schema: str, table: str) -> None:
        """Check that this name still is the table that the target's rows have always gone to.

        Call it after rows were inserted or deleted: their lock keeps the table from being renamed.

        Raises:
            TargetRefused: it is another table.
        """
        if self._run("keep_target", target=target, schema=schema, table=table) != 1:
            raise TableIsAnother(region=self.region, table=f"{schema}.{table}")

    def keep_key(self, target: str, table: str, forms: Mapping[str, str]) -> None:
        """Check that the values of a key still have the texts by which the ledger knows them.

        Call it after rows were written: their lock keeps the columns' types.

        Raises:
            TargetRefused: a column of the key has another type, of which texts differ.
        """
        if self._run("keep_key", target=target, forms=Json(dict(forms))) != 1:
            raise KeyTextsChanged(region=self.region, table=table, found=dict(forms))

    def advance_head(self, batch: Batch) -> int:
        """Make the batch the region's head; return the number of changed rows, which must be 1."""
        return self._run("advance_head", seq=batch.seq)
