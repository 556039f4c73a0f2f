"""Drain and stage: one job a batch, and what it has staged of the spans that a member owns.

Partitions that went to another member while the job read them are not staged by this one.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

from tidemark import failpoints
from tidemark.errors import JobFailed, TidemarkError
from tidemark.kafka.member import Member
from tidemark.model.batch import Attempt, Batch, Contribution, SpanRead
from tidemark.model.offsets import Span, TopicPartition, in_ranges
from tidemark.postgres.transaction import autocommit, transaction
from tidemark.runs._member_run import MemberRun
from tidemark.runs.job import JobExecutor
from tidemark.staging.tables import whole_reads
from tidemark.tracing.traced import traced

log = logging.getLogger(__name__)


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
            lost = self._member.lost_partitions(self._read)
            if lost:
                self._lost |= lost
                self._executor.interrupt()


class Stager:
    """The executor of one member, from its start to its end, and its staging of each batch."""

    def __init__(self, run: MemberRun) -> None:
        """Start the executor; the target is there and fits, see `start_job` for what it raises."""
        job = run.start_job()
        self._run = run
        self.executor = job.executor
        self.target_writers = job.target_writers
        self.newest_made = 0
        """The newest batch whose staging tables it has made; 0: none. They may be gone since."""
        self.active_read = ActiveRead(run.member, job.executor)

    def staged(self, batch: Batch, spans: Sequence[Span]) -> Contribution | None:
        """What the job has staged; None if it was for nothing, which is no failure.

        Where the batch was published meanwhile, its staging may be gone under the job.
        """
        self.make_tables(batch)
        began = time.monotonic()
        try:
            winners = self._run_job(batch, spans)
            if winners is None:
                return None
            reads = self._complete_reads(batch, spans, winners)
            return Contribution.of(self._run.number, reads, winners, time.monotonic() - began)
        except TidemarkError as error:
            is_current = batch.seq in self._run.ledger.unpublished_seqs(batch.region)
            if is_current or self._run.is_fenced():
                raise
            log.info("batch %s was published by another member meanwhile: %s", batch.seq, error)
            return None

    def make_tables(self, batch: Batch) -> None:
        """The batch's staging tables are there.

        Under the epoch: a zombie makes no tables that nobody would retire. They are looked for each
        time, for a fail-over may have taken them back, and given their seq to another plan.
        """
        self.newest_made = max(self.newest_made, batch.seq)
        with autocommit(self._run.ledger.engine) as cursor:
            if self.target_writers.staging_fits(cursor, batch):
                return
        with self._run.ledger.deciding(batch.region, batch.epoch, "staging") as tx:
            self.target_writers.create_staging(tx.cursor, batch, self._run.writer)

    def _run_job(self, batch: Batch, spans: Sequence[Span]) -> list[Attempt] | None:
        """The winners; None if partitions went to another member meanwhile and the job was ended.

        A revocation is no loss: what was claimed stands, the new owner drains the rest of the plan.
        """
        try:
            with self.active_read.reading(spans), traced("drain"):
                return self.executor.drain(batch, spans)
        except JobFailed as error:
            error.spans = tuple(spans)
            lost = self.active_read.lost
            if not lost or self._run.is_fenced():
                raise
            log.info("job ended: %s went to another member", in_ranges(lost))
            return None

    def _complete_reads(
        self, batch: Batch, spans: Sequence[Span], winners: Sequence[Attempt]
    ) -> tuple[SpanRead, ...]:
        run = self._run
        with traced("stage"), transaction(run.ledger.engine, "reads") as cursor:
            reads = whole_reads(cursor, batch, run.number, spans, winners, run.transform)
        failpoints.hit("drain.staged")
        return reads
