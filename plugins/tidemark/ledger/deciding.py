"""A deciding transaction: all changes that it may make under the region lock and the epoch."""

from tidemark.ledger import rewinds
from tidemark.ledger.actions import Order, write_action
from tidemark.ledger.again import Again
from tidemark.ledger.errors import CheckpointNotRestored
from tidemark.ledger.planning import Planning
from tidemark.ledger.publishing import Publishing
from tidemark.ledger.replaying import Replaying
from tidemark.protocol.ports import NewReset
from tidemark.protocol.removal import Removal


class Deciding(Planning, Publishing, Replaying, Again):
    """All changes that an epoch may make: plan, publish, close, rewind, replay and prune."""

    __slots__ = ()

    def published(self) -> tuple[int, int, int, int]:
        """Return how many batches, rows, dead letters and records this epoch has published."""
        self._run("published_in")
        return self.cursor.fetchone()  # type: ignore[return-value]

    def close_run(self, state: str, reason: str | None) -> None:
        """Record the run's final state and the reason."""
        self._run("close_run", state=state, reason=reason)

    def published_after(self, seq: int) -> Removal:
        """What a rewind to a seq must remove."""
        return rewinds.published_after(self.cursor, self.region, seq)

    def rewind(self, to_seq: int) -> tuple[int, int]:
        """Restore the ledger to a checkpoint.

        Returns how many dead letters were deleted, and how many replays were taken back.

        Raises:
            Fenced: the region has another epoch.
        """
        replays = self._number("rewind_replays", seq=to_seq)
        dead_letters = self._run("rewind_dead_letters", seq=to_seq)
        self._run("rewind_spans", seq=to_seq)
        self._run("rewind_batches", seq=to_seq)
        self._run("rewind_partitions", seq=to_seq)
        self._forget_pruned_rows(to_seq)
        if self._run("rewind_head", seq=to_seq) != 1:
            raise CheckpointNotRestored(region=self.region, seq=to_seq)
        return dead_letters, replays

    def _forget_pruned_rows(self, to_seq: int) -> None:
        self._run("forget_pruned_rows", seq=to_seq)

    def finish_reset(self, removed: Removal) -> None:
        """Mark this epoch's reset as finished; a constraint refuses other counts than planned."""
        self._run("finish_reset", rows=removed.total, dead_letters=removed.dead_letters)

    def abandon_reset(self) -> None:
        """Mark this epoch's reset as abandoned: it changed nothing."""
        self._run("abandon_reset")

    def withhold(self, seq: int, sent_seq: int, request: NewReset) -> bool:
        """The lowest batch after the one that was sent is never sent; False if it is another."""
        is_lowest = self._run("withhold", seq=seq, sent_seq=sent_seq) == 1
        if is_lowest:
            order = Order(request.who, request.why)
            write_action(self.cursor, self.region, "withhold", order, {"seq": seq})
        return is_lowest

    def prune(self, retain: int, step: int) -> bool:
        """Delete what is older than the newest `retain` checkpoints; True if more may be left.

        Keeps each partition's newest boundary. Deletes at most `step` checkpoints, `step` runs
        and `step` members.
        """
        last, up_to = self._one("prune_up_to", retain=retain, step=step) or (0, 0)
        oldest = up_to or last
        self._run("prune_spans", oldest=oldest)
        self._run("prune_contributions", oldest=oldest)
        self._run("prune_undo", oldest=oldest)
        self._run("prune_batches", oldest=oldest)
        runs = self._run("prune_runs", oldest=oldest, retain=retain, step=step)
        members = self._run("prune_members", retain=retain, step=step)
        self._run("prune_oldest_seq", oldest=oldest)
        return bool(oldest < last or step in (runs, members))
