"""One member's part in sending rows to the output topic: not beside another, and not too late."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidemark.errors import Unreachable
from tidemark.ledger.sending import unsent
from tidemark.member.member_run import MemberRun
from tidemark.postgres.session import try_lock_name, unlock_name
from tidemark.postgres.transaction import autocommit

log = logging.getLogger(__name__)


@contextmanager
def alone(run: MemberRun) -> Iterator[bool]:
    """Whether no other member sends meanwhile: two would fence each other's long transactions.

    A courtesy: whoever opens, closes or resets sends all the same. What this member has published
    is sent by the other one, or by the next mirror.
    """
    if run.group.output is None:
        yield True
        return
    with autocommit(run.ledger.engine) as cursor:
        name = f"tidemark output {run.region}"
        is_ours = try_lock_name(cursor, name)
        yield is_ours
        if is_ours:  # else, or after an error, the session ends
            unlock_name(cursor, name)


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
