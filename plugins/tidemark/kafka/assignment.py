"""What a member holds of the group: written by the thread that owns the consumer, read by all."""

from collections.abc import Iterable
from threading import Condition

from tidemark.errors import TidemarkError
from tidemark.model.offsets import TopicPartition

Partitions = frozenset[TopicPartition]
NOTHING: Partitions = frozenset()


class Assignment:
    """The assignment as the last rebalance left it; a failure ends it for good."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._changes = 0
        self._told = 0
        self._assigned = NOTHING
        self._kept = NOTHING
        self._failure: TidemarkError | None = None

    def assigned(self) -> Partitions:
        """The partitions to work on now.

        Raises:
            TidemarkError: what ended the membership.
        """
        with self._changed:
            self._told = self._changes
            if self._failure:
                raise self._failure
            return self._assigned

    def taken_away(self, partitions: Iterable[TopicPartition]) -> Partitions:
        """Those of the partitions that are known to be another member's to work on."""
        with self._changed:
            return frozenset(partitions) - self._kept

    def wait(self, seconds: float) -> None:
        """Return when `assigned` would tell something new, or after `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: self._changes != self._told, seconds)

    def replace(self, partitions: Partitions) -> None:
        """These and no others are assigned."""
        self._set(partitions, partitions)

    def suspend(self) -> None:
        """Nothing is assigned while the group shares anew; what comes back was never away."""
        self._set(NOTHING, self._kept)

    def add(self, partitions: Partitions) -> None:
        """These are assigned too."""
        self._set(self._assigned | partitions, self._kept | partitions)

    def remove(self, partitions: Partitions) -> None:
        """These are another member's."""
        self._set(self._assigned - partitions, self._kept - partitions)

    def fail(self, failure: TidemarkError) -> None:
        """Nothing is held and nothing will be; the first failure is the one that is told."""
        with self._changed:
            self._failure = self._failure or failure
        self._set(NOTHING, NOTHING)

    def _set(self, assigned: Partitions, kept: Partitions) -> None:
        with self._changed:
            self._assigned, self._kept = assigned, kept
            self._changes += 1
            self._changed.notify_all()
