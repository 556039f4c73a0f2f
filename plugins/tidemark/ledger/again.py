"""What a transaction decides about one batch that is read again: its place, and its publish."""

from collections.abc import Mapping

from psycopg2.extensions import cursor as Cursor

from tidemark.ledger.decision import Decision, counts_of
from tidemark.ledger.errors import BatchNotReplayable, LettersPurgedMeanwhile, SpansReadOtherwise
from tidemark.model.batch import Batch, Moved, PlannedSpan
from tidemark.model.contribution import Contribution
from tidemark.model.offsets import Span
from tidemark.postgres.queries import query
from tidemark.protocol.removal import Removal


def refuse_again(cursor: Cursor, region: str, seq: int) -> None:
    """Refuse a batch that can't be read again.

    Raises:
        Refused: it is not published, pruned, of a replay, or upserted; or dead letters of it were
            purged, of which nobody knows whether a replay had made rows of them.
    """
    kind, is_retained, purged, is_upserted = _again_facts(cursor, region, seq)
    if kind is None:
        raise BatchNotReplayable(region=region, seq=seq, why="unknown")
    if not is_retained:
        raise BatchNotReplayable(region=region, seq=seq, why="pruned")
    if kind == "replay":
        raise BatchNotReplayable(region=region, seq=seq, why="replay")
    if is_upserted:
        raise BatchNotReplayable(region=region, seq=seq, why="upserted")
    if purged:
        raise BatchNotReplayable(region=region, seq=seq, why="purged", purged=purged)


def _again_facts(cursor: Cursor, region: str, seq: int) -> tuple[str | None, bool, int, bool]:
    cursor.execute(query("again_facts"), {"region": region, "seq": seq})
    found: tuple[str | None, bool, int, bool] | None = cursor.fetchone()
    return found or (None, False, 0, False)


class Again(Decision):
    """A published batch whose rows are replaced."""

    __slots__ = ()

    def write_again(self, seq: int) -> Batch:
        """The published batch, with a place for what will be staged of it.

        Raises:
            Refused: see `refuse_again`.
        """
        refuse_again(self.cursor, self.region, seq)
        found = self._published_spans(seq)
        staged = self._give_out_seq()
        self._run("write_again", staged_seq=staged)
        return Batch(
            self.region,
            self.epoch,
            seq,
            found,
            len(found),
            set_aside=self._again_aside(seq),
            staged_seq=staged,
        )

    def _published_spans(self, seq: int) -> tuple[PlannedSpan, ...]:
        self._run("published_spans", seq=seq)
        rows = self.cursor.fetchall()
        return tuple(PlannedSpan(Span(*row[:4]), topic_id=row[4]) for row in rows)

    def _again_aside(self, seq: int) -> frozenset[tuple[str, int, int]]:
        self._run("again_aside", seq=seq)
        return frozenset((topic, number, offset) for topic, number, offset in self.cursor)

    def take_again(self, batch: Batch) -> int:
        """Free the batch's place; return how many places there were: 0, if it died."""
        return self._run("take_again", staged_seq=batch.staged_seq)

    def published_of(self, batch: Batch) -> Removal:
        """What the batch has published, as the ledger counted it."""
        return Removal(*(self._one("published_of", seq=batch.seq) or ({}, 0)))

    def remove_letters(self, batch: Batch) -> int:
        """Remove its dead letters but those that were replayed; return how many."""
        return self._run("remove_letters", seq=batch.seq)

    def claim_again(self, batch: Batch, contribution: Contribution) -> None:
        """The contribution stands in the place of those before, of all spans.

        Raises:
            StagingLost: a span is missing, or has another number of records.
        """
        number = self._write_contribution(batch, contribution)
        claimed = self._run(
            "claim_again",
            seq=batch.seq,
            contribution=number,
            **counts_of(contribution.reads),
        )
        if claimed != len(batch.spans):
            raise SpansReadOtherwise(
                region=self.region, seq=batch.seq, spans=len(batch.spans), read=claimed
            )
        self._run("claim_again_alone", seq=batch.seq, contribution=number)

    def publish_again(self, batch: Batch, moved: Mapping[str, Moved], dead_letters: int) -> int:
        """Count what came, which named constraints check; return the batch's dead letters.

        Raises:
            Refused: dead letters of it were purged meanwhile.
        """
        self._run("publish_again_targets", seq=batch.seq)
        self._write_moved(batch, moved)
        values = {"seq": batch.seq, "staged_seq": batch.staged_seq, "letters": dead_letters}
        found = self._one("publish_again", **values)
        if found is None:
            raise LettersPurgedMeanwhile(region=self.region, seq=batch.seq)
        return int(found[0])
