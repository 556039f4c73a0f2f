"""The loop of one member: plan, drain, stage, contribute, mirror, until the ledger says done."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Protocol

import pyarrow as pa

from tidemark import failpoints
from tidemark.checkpoint import Attempt, Batch, Contribution, Executor
from tidemark.errors import (
    Fenced,
    IncompleteRead,
    MirrorFailed,
    NoProgress,
    TidemarkError,
    Unreachable,
)
from tidemark.facts import backlog, check_topic_ids
from tidemark.kafka.facts import Broker
from tidemark.kafka.group import Group
from tidemark.kafka.member import Member
from tidemark.ledger.ledger import Ledger
from tidemark.ledger.transaction import transaction
from tidemark.mirror import mirror
from tidemark.offsets import Span, TopicPartition
from tidemark.pipeline import Pipeline
from tidemark.protocol import Outcome, Result, contribute_and_publish, plan_batch
from tidemark.staging import tables
from tidemark.staging.columns import columns_of
from tidemark.staging.mover import Mover
from tidemark.staging.reads import complete_reads
from tidemark.staging.target import Target, ensure

log = logging.getLogger(__name__)

WATCH_SECONDS = 3.0
ASSIGNMENT_SECONDS = 0.5


class JobExecutor(Executor, Protocol):
    """An executor that knows what its job returns."""

    def output_schema(self) -> pa.Schema:
        """Columns of the transformed rows; found without running a job."""


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
    executor_of: Callable[[], JobExecutor]
    _executor: JobExecutor | None = None
    _mover: Mover | None = None
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
            if self._has_backlog():
                self._start_job()
            self._drain_batches()
        except TidemarkError as error:
            # A cancelled job, or one whose staging was dropped, fails in its own words.
            if not isinstance(error, Fenced) and self._is_fenced():
                raise self._epoch_passed() from error
            raise
        finally:
            self._done.set()
            watch.join()
            if self._executor:
                self._executor.close()
        return self._summary(time.monotonic() - started)

    def _has_backlog(self) -> bool:
        """A look: a run without a backlog starts no Spark at all."""
        offsets = self.ledger.merged_checkpoint(self.region).offsets
        return backlog(offsets, self.ledger.target_offsets(self.region, self.epoch)) > 0

    def _start_job(self) -> None:
        """Start the executor; the target is there and fits, before any batch is planned."""
        self._show("starting")
        self._executor = self.executor_of()
        columns = columns_of(self._executor.output_schema())
        target = Target.parse(self.pipeline.target.table)
        with transaction(self.ledger.engine, "target") as cursor:
            ensure(cursor, target, columns)
        self._mover = Mover(target, columns)

    def _drain_batches(self) -> None:
        last_progress = time.monotonic()
        while True:
            facts = self.broker.facts(self.pipeline.kafka.topics)
            batch = plan_batch(self.ledger, self.region, self.epoch, facts)
            if batch is None:
                self._show("done")
                return
            spans = self._mine(batch)
            if spans:
                self._drain_batch(batch, spans)
                last_progress = time.monotonic()
            elif time.monotonic() - last_progress > self.pipeline.no_progress_seconds:
                raise self._no_progress(batch)
            else:
                self._show("waiting")
                self.member.wait(ASSIGNMENT_SECONDS)

    def _mine(self, batch: Batch) -> list[Span]:
        owned = self.member.assigned()
        return [p.span for p in batch.unclaimed if p.span.topic_partition in owned]

    def _drain_batch(self, batch: Batch, spans: Sequence[Span]) -> None:
        if self._executor is None or self._mover is None:
            self._start_job()
        executor, mover = self._executor, self._mover
        if executor is None or mover is None:
            raise Unreachable(f"region {self.region}: the job could not be started")
        started = time.monotonic()
        self._show("draining", partitions=sorted(span.topic_partition for span in spans))
        # Under the epoch: a zombie makes no tables that nobody would retire.
        with self.ledger.deciding(self.region, self.epoch, "staging") as tx:
            tables.create(tx.cursor, batch.staging, mover.columns)
        winners = executor.drain(batch, spans)
        contribution = self._contribution(batch, spans, winners)
        facts = self.broker.facts(self.pipeline.kafka.topics)
        check_topic_ids(self.region, ((p.span.topic, p.topic_id) for p in batch.spans), facts)
        self._show("contributing", drain_ms=int((time.monotonic() - started) * 1000))
        outcome = contribute_and_publish(self.ledger, mover, batch, contribution)
        self._report(batch, outcome, time.monotonic() - started)

    def _contribution(
        self, batch: Batch, spans: Sequence[Span], winners: list[Attempt]
    ) -> Contribution:
        with transaction(self.ledger.engine, "reads") as cursor:
            reads = complete_reads(cursor, batch.staging, self.number, spans)
        missing = set(spans) - {read.span for read in reads}
        if missing:
            raise IncompleteRead(
                f"region {self.region}, batch {batch.seq}: no complete read of"
                f" {', '.join(map(str, sorted(missing)))} after the job. The transform"
                f" {self.pipeline.transform or '(none)'} lets Spark skip or cut the read:"
                " take limit(), first() and never-true filters out of it"
            )
        failpoints.hit("drain.staged")
        return Contribution(self.number, reads, tuple(w for w in winners if w.rows))

    def _report(self, batch: Batch, outcome: Outcome, seconds: float) -> None:
        if outcome.result is not Result.published:
            log.info("batch %s: contribution %s", batch.seq, outcome.result)
            return
        self._published.append(outcome)
        log.info(
            "batch %s published: %s rows, %s dead letters in %.2f s",
            batch.seq,
            outcome.rows,
            outcome.dead_letters,
            seconds,
        )
        try:
            mirror(self.ledger, self.group, self.region, self.epoch)
        except (MirrorFailed, Unreachable) as error:
            log.warning("mirror is behind, close repeats it: %s", error)

    def _no_progress(self, batch: Batch) -> NoProgress:
        waiting = ", ".join(str(p.span) for p in batch.unclaimed)
        holders = [h for h in self.group.holders() if not h.client_id.endswith(f"-{self.number}")]
        others = "; ".join(map(str, holders)) or "nobody"
        return NoProgress(
            f"region {self.region}, epoch {self.epoch}, batch {batch.seq}: no span was claimed for"
            f" {self.pipeline.no_progress_seconds} s. Waiting: {waiting}. In group"
            f" {self.group.group_id} besides this member: {others}. Stop foreign consumers of this"
            " group, or give the region a group of its own"
        )

    def _watch(self) -> None:
        """Look at the epoch every few seconds; a fenced member stops its job at once."""
        while not self._done.wait(WATCH_SECONDS):
            if self._is_fenced():
                if self._executor:
                    self._executor.cancel()
                return

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

    def _show(
        self,
        state: str,
        partitions: Sequence[TopicPartition] | None = None,
        drain_ms: int | None = None,
    ) -> None:
        names = None if partitions is None else [str(partition) for partition in partitions]
        self.ledger.show_member(self.number, state, names, drain_ms)

    def _summary(self, seconds: float) -> Drained:
        return Drained(
            epoch=self.epoch,
            batches=len(self._published),
            rows=sum(outcome.rows for outcome in self._published),
            dead_letters=sum(outcome.dead_letters for outcome in self._published),
            seconds=round(seconds, 3),
        )
