"""The loop of one member: plan, drain, stage, contribute, mirror, until the ledger says done."""

import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from tidemark.errors import DataLost, Fenced, TidemarkError
from tidemark.member.display import Display
from tidemark.member.member_run import MemberRun
from tidemark.member.outage import waited_out
from tidemark.member.publisher import Publisher
from tidemark.member.stager import Stager
from tidemark.member.stall import StallDetector
from tidemark.member.watch import watched
from tidemark.member.work import Work, next_work
from tidemark.model.batch import Batch
from tidemark.model.facts import RECHECK_PAUSE, RECHECK_SECONDS, Facts, check_topic_ids
from tidemark.protocol.plan import plan_batch

log = logging.getLogger(__name__)

WAIT_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Drained:
    """What one member did in a run."""

    epoch: int
    batches: int
    rows: int
    dead_letters: int
    seconds: float


class Drain:
    """One member of one run. `work` returns when the ledger says that the run is done."""

    def __init__(self, run: MemberRun) -> None:
        self._run = run
        self._stall = StallDetector(run)
        self._display = Display(run)
        self._stager: Stager | None = None
        self._publisher = Publisher(run, self._stall, self._cancel)

    def work(self) -> Drained:
        """Drain batch after batch until the ledger, under this epoch, says that the run is done.

        Raises:
            TidemarkError: see errors.py; its exit code says whether a retry may help.
        """
        started = time.monotonic()
        try:
            with watched(self._run, self._display, lambda: self._stager):
                self._drain_batches()
        except TidemarkError as error:
            self._fail(error)
        finally:
            self._publisher.close()
            if self._stager:
                self._stager.executor.close()
        return self._summary(time.monotonic() - started)

    def _fail(self, error: TidemarkError) -> NoReturn:
        """Raise what was first: a job that ends early ends for a reason."""
        cause = self._publisher.error or error
        is_fenced = isinstance(cause, Fenced) or self._run.is_fenced()
        self._display.show("reset complete" if is_fenced else "failed")
        if is_fenced and not isinstance(cause, Fenced):
            # A cancelled job, or one whose staging was dropped, fails in its own words.
            raise self._run.fenced() from cause
        raise cause

    def _cancel(self) -> None:
        if self._stager:
            self._stager.executor.cancel()

    def _drain_batches(self) -> None:
        while True:
            progress = self._stall.progress()
            if progress.epoch != self._run.epoch:
                raise self._run.fenced()
            if progress.is_done:
                self._publisher.wait()
                self._display.show("done")
                return
            if self._run.member.assigned() and self._drain_next():
                continue
            if not self._publisher.wait():
                self._display.show("waiting")
                self._run.member.wait(WAIT_SECONDS)

    def _drain_next(self) -> bool:
        """Drain, or publish, what is there for this member, planned if nobody has; else False."""
        stager = self._stager or self._start()
        in_hand = self._publisher.in_hand
        batches = self._unpublished() or self._plan()
        work = next_work(batches, self._run.member.assigned(), in_hand)
        if work:
            self._drain_batch(stager, work)
            return True
        is_complete = bool(batches) and not batches[0].unclaimed
        return is_complete and self._publisher.publish_complete(stager.mover)

    def _start(self) -> Stager:
        run = self._run
        self._display.show("starting")
        self._stager = Stager(run)
        run.ledger.remark(run.region, run.epoch, self._stager.executor.remarks())
        self._stall.renew()
        return self._stager

    def _unpublished(self) -> tuple[Batch, ...]:
        """It spares Kafka and the region lock the question, five times a second."""
        found = self._run.ledger.unpublished_batches(self._run.region)
        return tuple(batch for batch in found if batch.epoch == self._run.epoch)

    def _plan(self) -> tuple[Batch, ...]:
        """The epoch's batches; what Kafka seems to have lost is looked at again for a while."""
        run, deadline = self._run, time.monotonic() + RECHECK_SECONDS
        while True:
            try:
                return plan_batch(run.ledger, run.region, run.epoch, self._facts())
            except DataLost as error:
                if time.monotonic() > deadline:
                    raise
                log.warning("looking at Kafka again: %s", error)
            time.sleep(RECHECK_PAUSE)

    def _drain_batch(self, stager: Stager, work: Work) -> None:
        """Drain and stage; then contribute, publish and mirror."""
        started, batch = time.monotonic(), work.batch
        self._display.show("draining")
        contribution = stager.staged(batch, work.spans)
        if contribution is None:
            self._stall.excuse()  # it worked, for others to go on
            return
        self._publisher.wait()
        facts = self._facts()
        check_topic_ids(batch.region, ((p.span.topic, p.topic_id) for p in batch.spans), facts)
        self._display.show("records fetched", drain_ms=int((time.monotonic() - started) * 1000))
        if self._run.in_flight > 1:
            self._prepare_next(stager, facts)
        self._publisher.contribute(stager.mover, batch, contribution)

    def _prepare_next(self, stager: Stager, facts: Facts) -> None:
        """Plan the next batch and make its tables now: a publish holds the region's lock."""
        run = self._run
        with suppress(DataLost):  # it is looked at again when the batch is due
            for batch in plan_batch(run.ledger, run.region, run.epoch, facts):
                if next_work([batch], run.member.assigned(), None):
                    stager.make_tables(batch)

    def _facts(self) -> Facts:
        """What Kafka says now; an outage is waited out."""
        run = self._run
        seconds = run.pipeline.no_progress_seconds
        return waited_out(lambda: run.broker.facts(run.topics), seconds, self._bear_outage)

    def _bear_outage(self) -> None:
        """An outage is nobody's lack of progress; but who is fenced needs not wait for its end."""
        self._stall.excuse()
        if self._run.is_fenced():
            raise self._run.fenced()

    def _summary(self, seconds: float) -> Drained:
        published = self._publisher.published
        return Drained(
            epoch=self._run.epoch,
            batches=len(published),
            rows=sum(outcome.rows for outcome in published),
            dead_letters=sum(outcome.dead_letters for outcome in published),
            seconds=round(seconds, 3),
        )
