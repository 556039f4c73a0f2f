"""What a transaction decides about a replay of dead letters: its plan, and its publish."""

from collections.abc import Mapping

from tidemark.ledger.decision import Decision
from tidemark.ledger.letters import of_filter
from tidemark.model.batch import Batch, Moved, PlannedSpan, Stored
from tidemark.model.contribution import Contribution
from tidemark.model.dead_letters import LetterFilter
from tidemark.model.offsets import Span


class Replaying(Decision):
    """A replay: the dead letters that it has chosen, and what became of them."""

    __slots__ = ()

    def write_replay(self, meant: LetterFilter, limit: int) -> Batch | None:
        """Choose dead letters, the oldest histories first, for a batch that follows the head.

        None, and nothing is written, where none is meant.
        """
        seq = self._give_out_seq()
        self._run("write_replay_letters", seq=seq, limit=limit, **of_filter(meant))
        found = self.cursor.fetchall()
        if not found:
            return None
        self._run("write_replay_batch", seq=seq, records=sum(row[4] for row in found))
        spans = tuple(PlannedSpan(Span(*row[:4]), "") for row in found)
        stored = Stored(self.region, seq)
        return Batch(self.region, self.epoch, seq, spans, len(spans), stored=stored)

    def mark_replayed(self, batch: Batch) -> int:
        """Mark what is left of the chosen dead letters as replayed; return how many."""
        return self._run("mark_replayed", seq=batch.seq)

    def publish_replay(
        self,
        batch: Batch,
        contribution: Contribution,
        moved: Mapping[str, Moved],
        replayed: int,
        kept: int,
    ) -> int:
        """Publish with these counts, which named constraints check; return how many batches.

        The batches that the dead letters came with count those that were replayed.
        """
        self._write_moved(batch, moved)
        published = self._run(
            "publish_replay",
            seq=batch.seq,
            dead_letters=contribution.dead_letters,
            replayed=replayed,
            kept=kept,
        )
        self._run("publish_replay_counts", seq=batch.seq)
        return published

    def write_contribution(self, batch: Batch, contribution: Contribution) -> None:
        """Write which staged rows count: those of the winning attempts."""
        self._write_contribution(batch, contribution)
