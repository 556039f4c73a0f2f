"""The partitions that a member's job reads now, and those that went to another member meanwhile."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Lock

from tidemark.kafka.member import Member
from tidemark.member.job import JobExecutor
from tidemark.model.offsets import Span, TopicPartition


class ActiveRead:
    """Between the thread that runs jobs and the one that watches the assignment."""

    def __init__(self, member: Member, executor: JobExecutor) -> None:
        self._member = member
        self._executor = executor
        self._lock = Lock()
        self._read: frozenset[TopicPartition] = frozenset()
        self._lost: frozenset[TopicPartition] = frozenset()

    @property
    def lost(self) -> tuple[TopicPartition, ...]:
        """What the newest job lost, though it may have come back before the job ended."""
        return tuple(sorted(self._lost))

    @contextmanager
    def reading(self, spans: Iterable[Span]) -> Iterator[None]:
        """Inside the block a job reads the spans."""
        with self._lock:
            self._lost = frozenset()
            self._read = frozenset(span.topic_partition for span in spans)
        try:
            yield
        finally:
            with self._lock:
                self._read = frozenset()

    def interrupt_if_reassigned(self) -> None:
        """End the job if another member has its partitions; the lock keeps it from the next job."""
        with self._lock:
            lost = self._member.taken_away(self._read)
            if lost:
                self._lost |= lost
                self._executor.interrupt()
