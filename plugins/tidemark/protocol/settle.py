"""Settle a region: fence everyone, discard what is not published, mirror what is.

Open, reset and rewind are this one function with different requests; a replay and a withholding
begin with it.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tidemark import failpoints
from tidemark.errors import (
    Fenced,
    LedgerInconsistent,
    OutcomeUnknown,
    Refused,
    TargetRefused,
    TidemarkError,
)
from tidemark.model.batch import Removal
from tidemark.model.overrides import ACCEPT_CHANGES
from tidemark.protocol.errors import SettleDidNotHappen, SettleOvertaken
from tidemark.protocol.mirror import mirror
from tidemark.protocol.open import OpenRequest
from tidemark.protocol.ports import Group, Ledger, PublishedRows
from tidemark.protocol.reset import ResetRequest, RewindRequest, WithholdRequest
from tidemark.protocol.rewind_plan import refuse_other_removal

Request = OpenRequest | ResetRequest | RewindRequest | WithholdRequest


@dataclass(frozen=True, slots=True)
class Settled:
    """The epoch that was taken and what it discarded."""

    epoch: int
    discarded_seqs: tuple[int, ...] = ()


def settle(ledger: Ledger, group: Group, region: str, request: Request) -> Settled:
    """The region has a new epoch, nothing unpublished, and Kafka equals the ledger.

    1. one transaction: check, epoch+1 by compare-and-set, discard, write what the request is for
    2. mirror under the new epoch, see `_mirrored`
    Idempotent in effect; safe beside zombies, which are fenced by 1, and beside another settle.

    If it crashes: before COMMIT nothing stands; after it the next settle or close mirrors.

    Raises:
        Superseded: the request names an epoch that has passed.
        DataLost: an open, and Kafka no longer holds what the ledger needs.
        Refused: a person must decide; the text says what would go on.
        Fenced: another settle took the region between 1 and 2.
    """
    failpoints.hit(f"{request.name}.before")
    settled = _decide(ledger, region, request)
    failpoints.hit(f"{request.name}.decided")
    mirror(ledger, group, region, settled.epoch, _mirrored(request), request.gone)
    failpoints.hit(f"{request.name}.after")
    return settled


def _mirrored(request: Request) -> int | None:
    """The checkpoint that is mirrored, and nothing is sent; None: the head, and what it sends."""
    match request:
        case RewindRequest():
            return request.to_seq
        case WithholdRequest():
            return request.head_seq
        case OpenRequest() | ResetRequest():
            return None


def rewind(
    ledger: Ledger,
    group: Group,
    target: PublishedRows,
    region: str,
    request: RewindRequest,
) -> Settled:
    """Target, ledger and Kafka stand at an older checkpoint.

    1, 2 as settle: everyone is fenced, Kafka goes down first, so that it is never ahead
    3. one transaction under the same epoch: rows, dead letters and checkpoints after it go,
       offsets go back

    If it crashes: before the COMMIT of 3 the ledger is as it was, the next open lifts Kafka again.
    If 3 is refused, Kafka is lifted at once.

    Raises:
        Refused: there is no such checkpoint, or Kafka no longer holds what would be read again;
            or what was removed is not what the ledger published.
        Superseded: another open or reset came between 1 and 3; nothing was removed.
        TargetRefused: the target keeps its rows, or is another table.
    """
    with finishing(ledger, region, request, "removed"):
        settled = settle(ledger, group, region, request)
        _rewind_or_stay(ledger, group, target, region, settled.epoch, request)
    failpoints.hit("rewind.done")
    return settled


@contextmanager
def finishing(
    ledger: Ledger,
    region: str,
    request: RewindRequest | WithholdRequest,
    done: str,
) -> Iterator[None]:
    """Whoever is fenced within was overtaken; a COMMIT without an answer is looked up."""
    try:
        yield
    except Fenced as error:
        raise SettleOvertaken(region=region, done=done) from error
    except OutcomeUnknown as error:
        if ledger.reset_state(request.uuid, region) != "finished":
            raise SettleDidNotHappen(region=region, cause=str(error)) from error


def _decide(ledger: Ledger, region: str, request: Request) -> Settled:
    try:
        with ledger.settling(region, request.name) as tx:
            request.check(tx)
            epoch = tx.take_epoch(request.mirrored)
            discarded = tx.discard_unpublished_batches()
            request.write(tx, epoch, discarded)
            failpoints.hit(f"{request.name}.inside")
        return Settled(epoch, discarded)
    except OutcomeUnknown as error:
        found = ledger.find_settled(request.uuid, region)
        if found is None:
            raise SettleDidNotHappen(region=region, cause=str(error)) from error
        return Settled(found)


def _rewind_or_stay(
    ledger: Ledger,
    group: Group,
    target: PublishedRows,
    region: str,
    epoch: int,
    request: RewindRequest,
) -> None:
    """Rewind; where that is refused, nothing of it stands: Kafka goes up to the head again.

    If that fails as well, the next open does it.
    """
    try:
        _rewind(ledger, target, region, epoch, request)
    except (Refused, TargetRefused, LedgerInconsistent):
        with suppress(TidemarkError):
            with ledger.deciding(region, epoch, "reset") as tx:
                tx.abandon_reset()
            mirror(ledger, group, region, epoch)
        raise


def _rewind(
    ledger: Ledger,
    target: PublishedRows,
    region: str,
    epoch: int,
    request: RewindRequest,
) -> None:
    with ledger.deciding(region, epoch, "rewind") as tx:
        published = tx.published_after(request.to_seq)
        rows = target.remove_rows(tx, request.to_seq)
        failpoints.hit("rewind.removed")
        removed = Removal(rows, *tx.rewind(request.to_seq))
        if ACCEPT_CHANGES not in request.overrides:
            refuse_other_removal(region, published, removed)
        tx.finish_reset(removed)
