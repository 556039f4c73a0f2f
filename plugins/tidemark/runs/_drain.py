"""The loop of one member: plan, drain, stage, contribute, mirror, until the ledger says done."""

import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from tidemark.deadline import Clock, Deadline
from tidemark.errors import DataLost, Fenced, TidemarkError, Unreachable
from tidemark.kafka.member import Partitions
from tidemark.model.batch import Batch
from tidemark.model.facts import RECHECK_PAUSE, RECHECK_SECONDS
from tidemark.protocol.plan import plan_batch
from tidemark.runs._member_run import MemberRun
from tidemark.runs._publisher import Publisher, Turn, may_plan
from tidemark.runs._stall import KafkaFacts, StallDetector
from tidemark.runs._watch import Display, watched
from tidemark.runs._work import Otherwise, Work, next_step, own_work
from tidemark.tracing.step import EndedStep
from tidemark.tracing.traced import begun, record, remembered, traced

if TYPE_CHECKING:
    from tidemark.runs._stager import Stager


log = logging.getLogger(__name__)

WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 1.0
"""A member that has nothing to do looks around ever more seldom, down to this."""


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

    def __init__(self, run: MemberRun, clock: Clock) -> None:
        self._run = run
        self._clock = clock
        self._stall = StallDetector(run, clock)
        self._kafka = KafkaFacts(run, self._stall, clock)
        self._display = Display(run)
        self._stager: Stager | None = None
        self._publisher = Publisher(
            run,
            self._stall,
            Turn(run, clock),
            prepare_next=self._prepare_next,
            on_failure=self._cancel,
        )

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

    def is_done(self) -> bool:
        """Whether the ledger says that the run is done; needs no member of the group.

        Raises:
            Fenced: the run's epoch has passed.
            NoProgress, Unreachable: see `StallDetector.progress`.
        """
        is_contributing = self._publisher.in_hand is not None
        progress = self._stall.progress(is_contributing=is_contributing)
        if progress.epoch != self._run.epoch:
            raise self._run.fenced()
        return progress.is_done

    def _drain_batches(self) -> None:
        if self._run.is_expected and not self.is_done():
            self._start()  # beside the join
        pause = WAIT_SECONDS
        while not self.is_done():
            if self._drain_next() or self._publisher.wait():
                pause = WAIT_SECONDS
            else:
                self._display.show("waiting")
                self._run.member.wait(pause)
                pause = min(2 * pause, LONGEST_WAIT_SECONDS)
        self._publisher.wait()
        self._display.show("done")

    def _drain_next(self) -> bool:
        """Drain, or publish, what is there for this member, planned if nobody has; else False."""
        if not (owned := self._run.member.assigned()):
            return False
        stager, in_hand = self._stager or self._start(), self._publisher.in_hand
        step, planning = next_step(self._planned(owned), owned, in_hand), None
        if step is Otherwise.plan:
            with remembered("plan") as planning:
                step = next_step(self._plan(), owned, in_hand)
        match step:
            case Work():
                self._drain_batch(stager, step, planning)
                return True
            case Otherwise.plan:  # no batch may be planned now
                return False
            case Otherwise.publish:
                record(planning)  # what was planned is for others
                return self._publisher.publish_complete(stager.target_writers)
            case Otherwise.wait:
                record(planning)
                return False

    def _start(self) -> "Stager":
        from tidemark.runs._stager import Stager  # Arrow: a run without a backlog needs none

        run = self._run
        self._display.show("starting")
        self._stager = Stager(run)
        found = [*self._stager.executor.remarks(), *self._stager.target_writers.remarks()]
        run.ledger.remark(run.region, run.epoch, found)
        self._stall.renew()
        return self._stager

    def _planned(self, owned: Partitions) -> tuple[Batch, ...]:
        """The epoch's batches as they are planned, with the spans that this member owns.

        It needs neither Kafka nor the region lock: what is contributed to them is fenced.
        """
        found = self._run.ledger.unpublished_batches(self._run.region, owned)
        return tuple(batch for batch in found if batch.epoch == self._run.epoch)

    def _plan(self) -> tuple[Batch, ...]:
        """The epoch's batches; what Kafka seems to have lost is looked at again for a while."""
        if not may_plan(self._run, self._publisher.mirror):
            return ()
        run, deadline = self._run, Deadline(RECHECK_SECONDS, self._clock)
        while True:
            try:
                return plan_batch(run.ledger, run.region, run.epoch, self._kafka.now())
            except DataLost as error:
                if deadline.is_past:
                    raise
                log.warning("looking at Kafka again: %s", error)
            time.sleep(RECHECK_PAUSE)

    def _drain_batch(self, stager: "Stager", work: Work, planning: EndedStep | None) -> None:
        """Drain and stage; then contribute, publish and mirror."""
        started, batch = time.monotonic(), work.batch
        self._display.show("draining")
        with begun("batch", work.attributes, planning) as step:
            contribution = stager.staged(batch, work.spans)
            if contribution is None:
                self._stall.excuse()  # it worked, for others to go on
                step.end()
                return
            self._publisher.wait()
            self._kafka.check_topics(batch)
            drained_ms = int((time.monotonic() - started) * 1000)
            self._display.show("records fetched", drain_ms=drained_ms)
            if self._run.in_flight > 1 and stager.newest_made <= batch.seq:
                self._prepare_next()
            self._publisher.contribute(stager.target_writers, batch, contribution, step)

    def _prepare_next(self) -> None:
        """Plan the next batch and make its tables, so that its job waits for nothing.

        Not while a publish goes on, which holds the region's lock: before it, or after it beside
        the job of this batch. Nobody waits here for Kafka: the batch is planned when it is due.
        """
        run, stager = self._run, self._stager
        if stager is None or not may_plan(run, self._publisher.mirror):
            return
        with suppress(DataLost, Unreachable), traced("plan"):
            facts = run.broker.facts(run.topics)
            for batch in plan_batch(run.ledger, run.region, run.epoch, facts):
                if own_work([batch], run.member.assigned(), None):
                    stager.make_tables(batch)

    def _summary(self, seconds: float) -> Drained:
        published = self._publisher.published
        return Drained(
            epoch=self._run.epoch,
            batches=len(published),
            rows=sum(outcome.rows for outcome in published),
            dead_letters=sum(outcome.dead_letters for outcome in published),
            seconds=round(seconds, 3),
        )
