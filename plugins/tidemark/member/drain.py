"""The loop of one member: plan, drain, stage, contribute, mirror, until the ledger says done."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tidemark.errors import DataLost, Fenced, MirrorFailed, TidemarkError, Unreachable
from tidemark.member.display import Display
from tidemark.member.member_run import MemberRun
from tidemark.member.outage import waited_out
from tidemark.member.retire import retire
from tidemark.member.stager import Stager
from tidemark.member.stall import StallDetector
from tidemark.member.watch import watched
from tidemark.model.batch import Batch
from tidemark.model.facts import RECHECK_PAUSE, RECHECK_SECONDS, Facts, check_topic_ids
from tidemark.model.offsets import Span
from tidemark.protocol.mirror import mirror
from tidemark.protocol.publish import Outcome, Result, contribute_and_publish, plan_batch

log = logging.getLogger(__name__)

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


class Drain:
    """One member of one run. `work` returns when the ledger says that the run is done."""

    def __init__(self, run: MemberRun) -> None:
        self._run = run
        self._stall = StallDetector(run)
        self._display = Display(run)
        self._stager: Stager | None = None
        self._published: list[Outcome] = []

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
            is_fenced = isinstance(error, Fenced) or self._run.is_fenced()
            self._display.show("reset complete" if is_fenced else "failed")
            if is_fenced and not isinstance(error, Fenced):
                # A cancelled job, or one whose staging was dropped, fails in its own words.
                raise self._run.fenced() from error
            raise
        finally:
            if self._stager:
                self._stager.executor.close()
        return self._summary(time.monotonic() - started)

    def _drain_batches(self) -> None:
        while True:
            progress = self._stall.progress()
            if progress.epoch != self._run.epoch:
                raise self._run.fenced()
            if progress.is_done:
                self._display.show("done")
                return
            if not self._run.member.assigned() or not self._drain_next():
                self._display.show("waiting")
                self._run.member.wait(WAIT_SECONDS)

    def _drain_next(self) -> bool:
        """Plan, if nobody has, and drain what this member owns of it; False if that is nothing."""
        stager = self._stager or self._start()
        if self._is_for_others(self._run.ledger.unpublished_batch(self._run.region)):
            return False
        batch = self._plan()
        spans = self._mine(batch) if batch else []
        if batch and spans:
            self._drain_batch(stager, batch, spans)
        return bool(spans)

    def _start(self) -> Stager:
        run = self._run
        self._display.show("starting")
        self._stager = Stager(run)
        run.ledger.remark(run.region, run.epoch, self._stager.executor.remarks())
        self._stall.renew()
        return self._stager

    def _is_for_others(self, batch: Batch | None) -> bool:
        """It spares Kafka and the region lock the question, five times a second."""
        return batch is not None and batch.epoch == self._run.epoch and not self._mine(batch)

    def _mine(self, batch: Batch) -> list[Span]:
        owned = self._run.member.assigned()
        return [p.span for p in batch.unclaimed if p.span.topic_partition in owned]

    def _plan(self) -> Batch | None:
        """The epoch's batch; what Kafka seems to have lost is looked at again for a while."""
        run, deadline = self._run, time.monotonic() + RECHECK_SECONDS
        while True:
            try:
                return plan_batch(run.ledger, run.region, run.epoch, self._facts())
            except DataLost as error:
                if time.monotonic() > deadline:
                    raise
                log.warning("looking at Kafka again: %s", error)
            time.sleep(RECHECK_PAUSE)

    def _drain_batch(self, stager: Stager, batch: Batch, spans: Sequence[Span]) -> None:
        """Drain and stage, contribute and publish, mirror."""
        started = time.monotonic()
        self._display.show("draining")
        contribution = stager.staged(batch, spans)
        if contribution is None:
            self._stall.excuse()  # it worked, for others to go on
            return
        facts = self._facts()
        check_topic_ids(batch.region, ((p.span.topic, p.topic_id) for p in batch.spans), facts)
        self._display.show("records fetched", drain_ms=int((time.monotonic() - started) * 1000))
        outcome = contribute_and_publish(self._run.ledger, stager.mover, batch, contribution)
        self._stall.renew()
        if outcome.result is not Result.published:
            log.info("batch %s: contribution %s", batch.seq, outcome.result)
            return
        self._report(batch, outcome, time.monotonic() - started)
        self._mirror()

    def _report(self, batch: Batch, outcome: Outcome, seconds: float) -> None:
        self._published.append(outcome)
        counts = f"{outcome.rows} rows, {outcome.dead_letters} dead letters"
        log.info("batch %s published: %s in %.2f s", batch.seq, counts, seconds)
        if outcome.refused:
            log.warning(
                "batch %s: the target refused %s records: they are dead letters now",
                batch.seq,
                outcome.refused,
            )

    def _mirror(self) -> None:
        """Kafka follows the ledger, best effort; staging that is done with goes."""
        run = self._run
        try:
            mirror(run.ledger, run.group, run.region, run.epoch)
        except (MirrorFailed, Unreachable) as error:
            log.warning("the mirror is behind; close writes it again: %s", error)
        retire(run.ledger.engine, run.region, wait_ms=RETIRE_WAIT_MS)

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
        return Drained(
            epoch=self._run.epoch,
            batches=len(self._published),
            rows=sum(outcome.rows for outcome in self._published),
            dead_letters=sum(outcome.dead_letters for outcome in self._published),
            seconds=round(seconds, 3),
        )
