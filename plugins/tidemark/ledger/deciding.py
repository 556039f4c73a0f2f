"""What a transaction may decide under the region lock and the region's epoch."""

from tidemark.errors import Fenced
from tidemark.ledger import rewinds
from tidemark.ledger.planning import Planning
from tidemark.ledger.publishing import Publishing
from tidemark.protocol.removal import Removal


class Deciding(Planning, Publishing):
    """All that an epoch may decide: its batches, its run's end, what is removed and pruned."""

    __slots__ = ()

    def published(self) -> tuple[int, int, int, int]:
        """Batches, rows, dead letters and records that this epoch has published."""
        self._run("published_in")
        return self.cursor.fetchone()  # type: ignore[return-value]

    def close_run(self, state: str, reason: str | None) -> None:
        """The ledger's word on how the run ended."""
        self._run("close_run", state=state, reason=reason)

    def published_after(self, seq: int) -> Removal:
        """What a rewind to a seq has to remove."""
        return rewinds.published_after(self.cursor, self.region, seq)

    def rewind(self, to_seq: int) -> int:
        """Take the ledger back to a checkpoint; return how many dead letters went.

        Raises:
            Fenced: the region's row was not this epoch's.
        """
        dead_letters = self._run("rewind_dead_letters", seq=to_seq)
        self._run("rewind_spans", seq=to_seq)
        self._run("rewind_batches", seq=to_seq)
        self._run("rewind_partitions", seq=to_seq)
        if self._run("rewind_head", seq=to_seq) != 1:
            raise Fenced(f"region {self.region}: {to_seq} can't become the head")
        return dead_letters

    def finish_reset(self, removed: Removal) -> None:
        """The reset of this epoch is complete; the server raises if it removed something else."""
        self._run("finish_reset", rows=removed.rows, dead_letters=removed.dead_letters)

    def abandon_reset(self) -> None:
        """The reset of this epoch is at its end and has changed nothing."""
        self._run("abandon_reset")

    def prune(self, retain: int, step: int) -> bool:
        """Delete what lies before the newest `retain` checkpoints, but no partition's boundary.

        Of checkpoints, runs and members at most `step` each; whether there may be more to delete.
        """
        last, up_to = self._one("prune_up_to", retain=retain, step=step) or (0, 0)
        oldest = up_to or last
        self._run("prune_spans", oldest=oldest)
        self._run("prune_contributions", oldest=oldest)
        self._run("prune_batches", oldest=oldest)
        runs = self._run("prune_runs", oldest=oldest, retain=retain, step=step)
        members = self._run("prune_members", retain=retain, step=step)
        self._run("prune_oldest_seq", oldest=oldest)
        return bool(oldest < last or step in (runs, members))
