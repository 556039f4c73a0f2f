"""Contribute, publish and mirror: beside the next job where the run has two batches in flight.

Rows go to the output topic by one member at a time, and not too late.
"""

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING

from tidemark.deadline import Clock
from tidemark.errors import MirrorFailed, OutputTooLarge, Unreachable
from tidemark.ledger.sending import unsent
from tidemark.model.batch import Batch, Contribution
from tidemark.model.output import Parts
from tidemark.postgres.session import try_lock_name, unlock_name
from tidemark.postgres.transaction import autocommit
from tidemark.protocol.mirror import mirror
from tidemark.protocol.ports import Output
from tidemark.protocol.publish import Outcome, Result, contribute_and_publish, publish_complete
from tidemark.runs._member_run import MemberRun
from tidemark.runs._stall import Patience, StallDetector
from tidemark.runs._work import InHand
from tidemark.runs.retire import retire
from tidemark.tracing.step import Attributes, Step
from tidemark.tracing.traced import ending, record, remembered, traced

if TYPE_CHECKING:
    from tidemark.staging.target_writer import TargetWriters


log = logging.getLogger(__name__)


def turn_name(region: str, epoch: int) -> str:
    """Name the advisory lock of whoever sends: with the epoch, so a fenced member blocks nobody."""
    return f"tidemark output {region} {epoch}"


class Turn:
    """Let one member send at a time: two would fence each other's long transactions.

    This is a courtesy: open, close and reset send without it. What this member has published is
    sent by the holder, or by the next mirror. A holder that is gone, or that stands still, delays
    nobody longer than one transaction may take.
    """

    def __init__(self, run: MemberRun, clock: Clock) -> None:
        self._run = run
        self._clock = clock
        self._others: Patience | None = None
        """How long another one has had the turn, and nothing more was sent."""

    @contextmanager
    def hold(self) -> Iterator[bool]:
        """Whether this member may send, inside the block."""
        run = self._run
        if run.group.output is None:
            yield True
            return
        with autocommit(run.ledger.engine) as cursor:
            name = turn_name(run.region, run.epoch)
            is_ours = try_lock_name(cursor, name)
            if is_ours:
                self._others = None
            yield is_ours or self._is_overdue(run.group.output)
            if is_ours:  # else, or after an error, the session ends
                unlock_name(cursor, name)

    def _is_overdue(self, output: Output) -> bool:
        others = self._others = self._others or Patience(self._clock)
        others.observe(output.sent_seqs(self._run.region).read_back)
        if others.waited <= output.max_seconds:
            return False
        log.warning("sending beside another member: nothing was sent for %.0f s", others.waited)
        self._others = None
        return True


def may_plan(run: MemberRun, send: Callable[[], None]) -> bool:
    """Whether few batches are unsent, so that a further one may be planned; if not, `send` first.

    What Kafka does not tell keeps nobody from planning: the close counts exactly.
    """
    sending = run.sending
    if sending is None or _unsent(run, sending.parts) < sending.max_unsent:
        return True
    send()
    left = _unsent(run, sending.parts)
    if left >= sending.max_unsent:
        log.warning("no batch is planned: %d are published and not sent yet", left)
    return left < sending.max_unsent


def _unsent(run: MemberRun, parts: Parts) -> int:
    """Batches that are published and not sent, as far as Kafka tells what was sent."""
    try:
        marks = run.group.sent(run.ledger.merged_checkpoint(run.region).offsets)
    except Unreachable as error:
        log.warning("what was sent is unknown: %s", error)
        return 0
    newest = max((one.seq for one in marks), default=0)
    with autocommit(run.ledger.engine) as cursor:
        return len(unsent(cursor, run.region, parts, newest)) if marks else 0


RETIRE_WAIT_MS = 100
"""How long a member at work waits for a staging table that somebody still holds."""


class Publisher:
    """One contribution at a time, in the order of the batches."""

    def __init__(
        self,
        run: MemberRun,
        stall: StallDetector,
        turn: Turn,
        *,
        prepare_next: Callable[[], None],
        on_failure: Callable[[], None],
    ) -> None:
        """Beside a job, `prepare_next` is called after a contribution, `on_failure` if it fails."""
        self._run = run
        self._stall = stall
        self._turn = turn
        self._prepare_next = prepare_next
        self._on_failure = on_failure
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="publisher")
        self._at_work: Future[None] | None = None
        self._in_hand: InHand | None = None
        self.published: list[Outcome] = []
        self.error: BaseException | None = None
        """What a contribution beside a job failed with."""

    @property
    def in_hand(self) -> InHand | None:
        """What was given to `contribute` and may not be in the ledger yet."""
        return self._in_hand

    def contribute(
        self, target_writers: "TargetWriters", batch: Batch, contribution: Contribution, step: Step
    ) -> None:
        """Claim, publish what is complete, mirror: now, or beside what the caller does next.

        The step ends with it.

        Raises:
            TidemarkError: see `contribute_and_publish`; of this one or of the one before.
        """
        self.wait()
        self._stall.renew()
        if self._run.in_flight == 1:
            self._contribute(target_writers, batch, contribution, step)
            return
        self._in_hand = InHand(batch, contribution)
        traced_here = copy_context().run
        self._at_work = self._pool.submit(
            traced_here, self._contribute_beside, target_writers, batch, contribution, step
        )

    def publish_complete(self, target_writers: "TargetWriters") -> bool:
        """Publish the lowest batches that are complete; False if there are none."""
        outcomes = self._publish_complete(target_writers)
        if outcomes:
            self.mirror()
            self._stall.renew()
        return bool(outcomes)

    def wait(self) -> bool:
        """Nothing is on its way; False if nothing was.

        Raises:
            TidemarkError: see `contribute_and_publish`.
        """
        at_work, self._at_work = self._at_work, None
        if at_work is None:
            return False
        at_work.result()
        return True

    def close(self) -> None:
        """Wait until the contribution that was begun has committed, or failed."""
        self._pool.shutdown()

    def _contribute_beside(
        self, target_writers: "TargetWriters", batch: Batch, contribution: Contribution, step: Step
    ) -> None:
        try:
            self._contribute(target_writers, batch, contribution, step)
        except BaseException as error:
            self.error = error
            self._on_failure()
            raise
        finally:
            self._in_hand = None

    def _contribute(
        self, target_writers: "TargetWriters", batch: Batch, contribution: Contribution, step: Step
    ) -> None:
        began = time.monotonic()
        with ending(step):
            with traced("publish") as publishing:
                outcome = contribute_and_publish(
                    self._run.ledger, target_writers, batch, contribution
                )
                publishing.tell(_outcome_attributes(outcome))
            self._stall.renew()
            if outcome.result is Result.published:
                self._report(outcome, began)
            elif outcome.result is Result.lost:
                log.warning(
                    "batch %s: Postgres has lost its plan, as in a fail-over; its records are"
                    " planned again",
                    batch.seq,
                )
            else:
                log.info("batch %s: contribution %s", batch.seq, outcome.result)
            followed = self._publish_complete(target_writers) if self._run.in_flight > 1 else []
            if followed or outcome.result is Result.published:
                self.mirror()
            if self._run.in_flight > 1:
                self._prepare_next()
            self._stall.renew()

    def _publish_complete(self, target_writers: "TargetWriters") -> list[Outcome]:
        """Whoever looks at a complete lowest batch publishes it: it needs nobody else."""
        run, found = self._run, list[Outcome]()
        began = time.monotonic()
        with remembered("publish") as publishing:
            while outcome := publish_complete(run.ledger, target_writers, run.region, run.epoch):
                self._stall.renew()
                self._report(outcome, began)
                began = time.monotonic()
                found.append(outcome)
        if found:
            record(publishing)
        return found

    def _report(self, outcome: Outcome, began: float) -> None:
        self.published.append(outcome)
        counts = f"{outcome.rows} rows, {outcome.dead_letters} dead letters"
        log.info("batch %s published: %s in %.2f s", outcome.seq, counts, time.monotonic() - began)
        if outcome.refused:
            log.warning(
                "batch %s: the target refused %s records: they are dead letters now",
                outcome.seq,
                outcome.refused,
            )

    def mirror(self) -> None:
        """Kafka follows the ledger, best effort; staging that is done with goes."""
        run = self._run
        try:
            with self._turn.hold() as is_ours:
                if is_ours:
                    with traced("mirror"):
                        mirror(run.ledger, run.group, run.region, run.epoch)
        except (MirrorFailed, OutputTooLarge, Unreachable) as error:
            log.warning("the mirror is behind; close writes it again: %s", error)
        retire(run.ledger.engine, run.region, wait_ms=RETIRE_WAIT_MS)


def _outcome_attributes(outcome: Outcome) -> Attributes:
    """What a trace says of it."""
    return {
        "tidemark.result": str(outcome.result),
        "tidemark.batch.rows": outcome.rows,
        "tidemark.batch.dead_letters": outcome.dead_letters,
    }
