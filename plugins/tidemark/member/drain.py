"""The loop of one member: plan, drain, stage, contribute, mirror, until the ledger says done."""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from tidemark.errors import DataLost, Fenced, TidemarkError
from tidemark.kafka.assignment import Partitions
from tidemark.member.display import Display
from tidemark.member.member_run import MemberRun
from tidemark.member.outage import waited_out
from tidemark.member.publisher import Publisher
from tidemark.member.stager import Stager
from tidemark.member.stall import StallDetector
from tidemark.member.watch import watched
from tidemark.member.work import Work, next_work
from tidemark.model.batch import Batch
from tidemark.model.facts import RECHECK_PAUSE, RECHECK_SECONDS, check_topic_ids
from tidemark.protocol.plan import plan_batch

log = logging.getLogger(__name__)

T = TypeVar("T")

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

    def __init__(self, run: MemberRun) -> None:
        self._run = run
        self._stall = StallDetector(run)
        self._display = Display(run)
        self._stager: Stager | None = None
        self._publisher = Publisher(run, self._stall, self._cancel)
        self._for_others: tuple[Sequence[int], Partitions] | None = None
        """Batches, and what this member owned when none of that was left to do in them."""

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
        pause = WAIT_SECONDS
        while True:
            progress = self._stall.progress()
            if progress.epoch != self._run.epoch:
                raise self._run.fenced()
            if progress.is_done:
                self._publisher.wait()
                self._display.show("done")
                return
            if self._drain_next(progress.unpublished_seqs) or self._publisher.wait():
                pause = WAIT_SECONDS
            else:
                self._display.show("waiting")
                self._run.member.wait(pause)
                pause = min(2 * pause, LONGEST_WAIT_SECONDS)

    def _drain_next(self, seqs: Sequence[int]) -> bool:
        """Drain, or publish, what is there for this member, planned if nobody has; else False.

        What it owns of the batches is looked at once, and again when these or that change.
        """
        owned = self._run.member.assigned()
        if not owned or self._for_others == (seqs, owned):
            return False
        stager, in_hand = self._stager or self._start(), self._publisher.in_hand
        batches = self._planned(owned) or self._plan()
        if work := next_work(batches, owned, in_hand):
            self._drain_batch(stager, work)
            return True
        if batches and batches[0].is_complete:
            return self._publisher.publish_complete(stager.mover)
        self._for_others = ([batch.seq for batch in batches], owned) if batches else None
        return False

    def _start(self) -> Stager:
        run = self._run
        self._display.show("starting")
        self._stager = Stager(run)
        run.ledger.remark(run.region, run.epoch, self._stager.executor.remarks())
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
        run, deadline = self._run, time.monotonic() + RECHECK_SECONDS
        while True:
            try:
                facts = self._asked(lambda: run.broker.facts(run.topics))
                return plan_batch(run.ledger, run.region, run.epoch, facts)
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
        self._check_topics(batch)
        self._display.show("records fetched", drain_ms=int((time.monotonic() - started) * 1000))
        if self._run.in_flight > 1:
            self._prepare_next(stager)
        self._publisher.contribute(stager.mover, batch, contribution)

    def _prepare_next(self, stager: Stager) -> None:
        """Plan the next batch and make its tables now: a publish holds the region's lock."""
        run = self._run
        facts = self._asked(lambda: run.broker.facts(run.topics))
        with suppress(DataLost):  # it is looked at again when the batch is due
            for batch in plan_batch(run.ledger, run.region, run.epoch, facts):
                if next_work([batch], run.member.assigned(), None):
                    stager.make_tables(batch)

    def _check_topics(self, batch: Batch) -> None:
        """The batch's topics are those that it was planned on."""
        planned = {(one.span.topic, one.topic_id) for one in batch.spans}
        found = self._asked(lambda: self._run.broker.topic_ids(sorted({t for t, _ in planned})))
        check_topic_ids(batch.region, planned, found)

    def _asked(self, ask: Callable[[], T]) -> T:
        """What Kafka says now; an outage is waited out."""
        return waited_out(ask, self._run.pipeline.no_progress_seconds, self._bear_outage)

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
