"""One member's part in sending rows to the output topic: not beside another, and not too late."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidemark.errors import Unreachable
from tidemark.ledger.sending import unsent
from tidemark.member.member_run import MemberRun
from tidemark.member.patience import Patience
from tidemark.postgres.session import try_lock_name, unlock_name
from tidemark.postgres.transaction import autocommit
from tidemark.protocol.output_ports import Output

log = logging.getLogger(__name__)


def turn_name(region: str, epoch: int) -> str:
    """What whoever sends locks. A member of an epoch that has passed is in nobody's way."""
    return f"tidemark output {region} {epoch}"


class Turn:
    """Whose turn it is to send: two members would fence each other's long transactions.

    A courtesy: whoever opens, closes or resets sends all the same. What this member has published
    is sent by the other one, or by the next mirror. A holder that is gone, or that stands still,
    keeps nobody from sending for longer than a transaction may take.
    """

    def __init__(self, run: MemberRun, clock: Callable[[], float]) -> None:
        self._run = run
        self._clock = clock
        self._others: Patience | None = None
        """How long another one has had the turn, and nothing more was sent."""

    @contextmanager
    def taken(self) -> Iterator[bool]:
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
        others.look(output.sent_seqs(self._run.region).read_back)
        if others.waited <= output.max_seconds:
            return False
        log.warning("sending beside another member: nothing was sent for %.0f s", others.waited)
        self._others = None
        return True


def may_plan(run: MemberRun, send: Callable[[], None]) -> bool:
    """Whether few batches are unsent, so that a further one may be planned; if not, `send` first.

    What Kafka does not tell keeps nobody from planning: the close counts exactly.
    """
    output = run.pipeline.sending
    if output is None or _unsent(run) < output.max_unsent:
        return True
    send()
    left = _unsent(run)
    if left >= output.max_unsent:
        log.warning("no batch is planned: %d are published and not sent yet", left)
    return left < output.max_unsent


def _unsent(run: MemberRun) -> int:
    """Batches that are published and not sent, as far as Kafka tells what was sent."""
    try:
        marks = run.group.sent(run.ledger.merged_checkpoint(run.region).offsets)
    except Unreachable as error:
        log.warning("what was sent is unknown: %s", error)
        return 0
    newest = max((one.seq for one in marks), default=0)
    with autocommit(run.ledger.engine) as cursor:
        return len(unsent(cursor, run.region, run.pipeline.sent_parts, newest)) if marks else 0
