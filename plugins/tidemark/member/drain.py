"""The loop of one member: plan, drain, stage, contribute, mirror, until the ledger says done."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event, Thread

from tidemark import failpoints
from tidemark.errors import (
    DataLost,
    Fenced,
    IncompleteRead,
    JobFailed,
    MirrorFailed,
    TidemarkError,
    Unreachable,
)
from tidemark.kafka.facts import Broker
from tidemark.kafka.group import Group
from tidemark.kafka.member import Member
from tidemark.ledger.ledger import Ledger
from tidemark.member.active_read import ActiveRead
from tidemark.member.display import Display
from tidemark.member.job import Job, JobExecutor, start_job
from tidemark.member.outage import waited_out
from tidemark.member.retire import retire
from tidemark.member.stall import StallDetector
from tidemark.model.batch import Attempt, Batch, Contribution, SpanRead
from tidemark.model.facts import RECHECK_PAUSE, RECHECK_SECONDS, Facts, check_topic_ids
from tidemark.model.offsets import Span
from tidemark.postgres.transaction import transaction
from tidemark.protocol.mirror import mirror
from tidemark.protocol.publish import Outcome, Result, contribute_and_publish, plan_batch
from tidemark.settings.pipeline import Pipeline
from tidemark.staging import tables
from tidemark.staging.reads import complete_reads

log = logging.getLogger(__name__)

WATCH_SECONDS = 3.0
WAIT_SECONDS = 0.2

RETIRE_WAIT_MS = 100
"""How long a member at work waits for a staging table that somebody still holds."""


@dataclass(frozen=True, slots=True)
class Drained:
    """What one member did in a run."""

    epoch: int
    batches: int
    rows: int
    dead_letters: int
    seconds: float


@dataclass(slots=True)
class Drain:
    """One member of one run. `work` returns when the ledger says that the run is done."""

    pipeline: Pipeline
    epoch: int
    number: int
    ledger: Ledger
    broker: Broker
    group: Group
    member: Member
    topics: Sequence[str]
    """The run's topics, as its target offsets name them."""
    executor_of: Callable[[], JobExecutor]
    stall: StallDetector
    display: Display
    active_read: ActiveRead
    _job: Job | None = None
    _done: Event = field(default_factory=Event)
    _published: list[Outcome] = field(default_factory=list)

    @property
    def region(self) -> str:
        """The region's name."""
        return self.pipeline.region

    def work(self) -> Drained:
        """Drain batch after batch until the ledger, under this epoch, says that the run is done.

        Raises:
            TidemarkError: see errors.py; its exit code says whether a retry may help.
        """
        started = time.monotonic()
        watch = Thread(target=self._watch, name="epoch-watch", daemon=True)
        watch.start()
        try:
            self._drain_batches()
        except TidemarkError as error:
            is_fenced = isinstance(error, Fenced) or self._is_fenced()
            self.display.show("reset complete" if is_fenced else "failed")
            if is_fenced and not isinstance(error, Fenced):
                # A cancelled job, or one whose staging was dropped, fails in its own words.
                raise self._epoch_passed() from error
            raise
        finally:
            self._done.set()
            watch.join()
            if self._job:
                self._job.executor.close()
        return self._summary(time.monotonic() - started)

    def _drain_batches(self) -> None:
        while True:
            progress = self.stall.look()
            if progress.epoch != self.epoch:
                raise self._epoch_passed()
            if progress.is_done:
                self.display.show("done")
                return
            if not self.member.assigned() or not self._drain_next():
                self.display.show("waiting")
                self.member.wait(WAIT_SECONDS)

    def _drain_next(self) -> bool:
        """Plan, if nobody has, and drain what this member owns of it; False if that is nothing."""
        job = self._job or self._start_job()
        if self._is_for_others(self.ledger.unpublished_batch(self.region)):
            return False
        batch = self._plan()
        spans = self._mine(batch) if batch else []
        if batch and spans:
            self._drain_batch(job, batch, spans)
        return bool(spans)

    def _plan(self) -> Batch | None:
        """The epoch's batch; what Kafka seems to have lost is looked at again for a while."""
        deadline = time.monotonic() + RECHECK_SECONDS
        while True:
            try:
                return plan_batch(self.ledger, self.region, self.epoch, self._facts())
            except DataLost as error:
                if time.monotonic() > deadline:
                    raise
                log.warning("asking Kafka again: %s", error)
            time.sleep(RECHECK_PAUSE)

    def _facts(self) -> Facts:
        """What Kafka says now; an outage is waited out."""
        seconds = self.pipeline.no_progress_seconds
        return waited_out(lambda: self.broker.facts(self.topics), seconds, self._bear_outage)

    def _bear_outage(self) -> None:
        """An outage is nobody's lack of progress; but who is fenced needs not wait for its end."""
        self.stall.renew()
        if self._is_fenced():
            raise self._epoch_passed()

    def _start_job(self) -> Job:
        self.display.show("starting")
        self._job = start_job(self.pipeline, self.ledger, self.executor_of)
        self.ledger.remark(self.region, self.epoch, self._job.executor.remarks())
        self.stall.renew()
        return self._job

    def _is_for_others(self, batch: Batch | None) -> bool:
        """A look: it spares Kafka and the region lock the question, five times a second."""
        return batch is not None and batch.epoch == self.epoch and not self._mine(batch)

    def _mine(self, batch: Batch) -> list[Span]:
        owned = self.member.assigned()
        return [p.span for p in batch.unclaimed if p.span.topic_partition in owned]

    def _drain_batch(self, job: Job, batch: Batch, spans: Sequence[Span]) -> None:
        started = time.monotonic()
        self.display.show("draining")
        # Under the epoch: a zombie makes no tables that nobody would retire.
        with self.ledger.deciding(self.region, self.epoch, "staging") as tx:
            tables.create(tx.cursor, batch.staging, job.mover.columns)
        contribution = self._staged(job, batch, spans)
        if contribution is None:
            return
        facts = self._facts()
        check_topic_ids(self.region, ((p.span.topic, p.topic_id) for p in batch.spans), facts)
        self.display.show("records fetched", drain_ms=int((time.monotonic() - started) * 1000))
        outcome = contribute_and_publish(self.ledger, job.mover, batch, contribution)
        self.stall.renew()
        self._report(batch, outcome, time.monotonic() - started)

    def _staged(self, job: Job, batch: Batch, spans: Sequence[Span]) -> Contribution | None:
        """What the job has staged; None if it was for nothing, which is no failure.

        Where the batch was published meanwhile, its staging may be gone under the job.
        """
        try:
            winners = self._run_job(job, batch, spans)
            if winners is None:
                return None
            reads = self._complete_reads(batch, spans)
            return Contribution(self.number, reads, tuple(w for w in winners if w.rows))
        except TidemarkError as error:
            if self.ledger.unpublished_seq(self.region) == batch.seq or self._is_fenced():
                raise
            log.info("batch %s was published by another member meanwhile: %s", batch.seq, error)
            return None

    def _run_job(self, job: Job, batch: Batch, spans: Sequence[Span]) -> list[Attempt] | None:
        """The winners; None if partitions went to another member meanwhile and the job was ended.

        A revocation is no loss: what was claimed stands, the new owner drains the rest of the plan.
        """
        try:
            with self.active_read.reading(spans):
                return job.executor.drain(batch, spans)
        except JobFailed:
            lost = self.active_read.lost
            if not lost or self._is_fenced():
                raise
            log.info("job ended: %s went to another member", ", ".join(map(str, lost)))
            return None

    def _complete_reads(self, batch: Batch, spans: Sequence[Span]) -> tuple[SpanRead, ...]:
        with transaction(self.ledger.engine, "reads") as cursor:
            reads = complete_reads(cursor, batch.staging, self.number, spans)
        missing = set(spans) - {read.span for read in reads}
        if missing:
            raise IncompleteRead(
                f"region {self.region}, batch {batch.seq}: no complete read of"
                f" {', '.join(map(str, sorted(missing)))} after the job. The transform"
                f" {self.pipeline.transform or '(none)'} lets Spark stop reading early:"
                " remove limit(), first() and always-false filters"
            )
        failpoints.hit("drain.staged")
        return reads

    def _report(self, batch: Batch, outcome: Outcome, seconds: float) -> None:
        if outcome.result is not Result.published:
            log.info("batch %s: contribution %s", batch.seq, outcome.result)
            return
        self._published.append(outcome)
        counts = f"{outcome.rows} rows, {outcome.dead_letters} dead letters"
        log.info("batch %s published: %s in %.2f s", batch.seq, counts, seconds)
        if outcome.refused:
            log.warning("batch %s: the target refused %s records", batch.seq, outcome.refused)
        try:
            mirror(self.ledger, self.group, self.region, self.epoch)
        except (MirrorFailed, Unreachable) as error:
            log.warning("mirror is behind, close repeats it: %s", error)
        retire(self.ledger.engine, self.region, wait_ms=RETIRE_WAIT_MS)

    def _watch(self) -> None:
        """Look at epoch and assignment every few seconds; end a job that is for nothing."""
        while not self._done.wait(WATCH_SECONDS):
            self.display.refresh()
            if self._is_fenced():
                self.display.show("reset pending")
                if self._job:
                    self._job.executor.cancel()
                return
            if self._job:
                self.active_read.interrupt_if_reassigned(self._job.executor)

    def _is_fenced(self) -> bool:
        """A look at the ledger's epoch; unknown is no."""
        try:
            return self.ledger.epoch(self.region) != self.epoch
        except TidemarkError as error:
            log.warning("epoch unknown: %s", error)
            return False

    def _epoch_passed(self) -> Fenced:
        return Fenced(
            f"region {self.region}: epoch {self.epoch} has passed, another run or a reset took"
            " over; the job was cancelled and nothing of it became visible"
        )

    def _summary(self, seconds: float) -> Drained:
        return Drained(
            epoch=self.epoch,
            batches=len(self._published),
            rows=sum(outcome.rows for outcome in self._published),
            dead_letters=sum(outcome.dead_letters for outcome in self._published),
            seconds=round(seconds, 3),
        )
