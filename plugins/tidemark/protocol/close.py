"""Close a run: green means done, and only the ledger says so."""

from collections.abc import Iterator
from dataclasses import dataclass

from tidemark import failpoints
from tidemark.errors import InvalidSettings, MirrorFailed, OutputTooLarge, Refused
from tidemark.model.batch import Checkpoint
from tidemark.model.state import Run
from tidemark.protocol.errors import RunNeverOpened, RunUnfinished
from tidemark.protocol.mirror import mirror
from tidemark.protocol.ports import Deciding, Group, Ledger


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed run: what it published, and the merged checkpoint after it."""

    checkpoint: Checkpoint
    batches: int
    rows: int
    dead_letters: int
    records: int


def close(ledger: Ledger, group: Group, region: str, run_id: str) -> Closed:
    """The run is closed in the ledger: target offsets or its bound reached, Kafka equal.

    Where the region has an output topic, all that is published is sent.

    If it crashes: nothing is lost; closing again gives the same answer.

    Raises:
        RunNotDone: the ledger does not say that the run is done; the text says why.
        Unreachable: Kafka or Postgres does not answer; nothing was decided.
        Fenced: another run or a reset holds the region.
    """
    failpoints.hit("close.before")
    run = ledger.run_of(region, run_id)
    if run is None:
        raise RunNeverOpened(region=region, run_id=run_id)
    while (closed := _decide(ledger, group, run)) is None:
        pass  # a member published after the mirror was written: the next one says so too
    return closed


def fail(ledger: Ledger, region: str, run_id: str, why: str) -> None:
    """The ledger calls an open run failed, and says why: for one that ends before its close.

    Raises:
        Fenced: another run or a reset holds the region; what it wrote of this run stands.
    """
    run = ledger.run_of(region, run_id)
    if run is None or run.state != "open":
        return
    with ledger.deciding(region, run.epoch, "close") as tx:
        batches, *_ = tx.published()
        tx.close_run("failed", "; ".join([why, *_unfinished(tx, run, batches)]))


def _decide(ledger: Ledger, group: Group, run: Run) -> Closed | None:
    """The run is closed, or has failed; None where the head is not the one that was mirrored."""
    unmirrored, checkpoint = _mirrored(ledger, group, run)
    with ledger.deciding(run.region, run.epoch, "close") as tx:
        if checkpoint and checkpoint.seq != tx.head_seq:
            return None
        batches, rows, dead_letters, records = tx.published()
        reasons = [*_unfinished(tx, run, batches), *unmirrored]
        tx.close_run("failed" if reasons else "closed", "; ".join(reasons) or None)
    failpoints.hit("close.after")
    if reasons or checkpoint is None:
        raise RunUnfinished(region=run.region, epoch=run.epoch, reasons=tuple(reasons))
    return Closed(
        checkpoint=checkpoint,
        batches=batches,
        rows=rows,
        dead_letters=dead_letters,
        records=records,
    )


def _mirrored(ledger: Ledger, group: Group, run: Run) -> tuple[list[str], Checkpoint | None]:
    try:
        return [], mirror(ledger, group, run.region, run.epoch)
    except (MirrorFailed, OutputTooLarge, Refused, InvalidSettings) as error:
        return [str(error)], None


def _unfinished(tx: Deciding, run: Run, batches: int) -> Iterator[str]:
    """Each reason why the ledger does not call the run done."""
    for batch in tx.unpublished_batches():
        yield f"batch {batch.seq} is planned and not published"
    next_offsets = tx.next_offsets()
    left = [
        f"{partition} is at {next_offsets[partition]}, its target offset is {target}"
        for partition, target in tx.target_offsets().items()
        if next_offsets[partition] < target
    ]
    if left and run.bound is None:
        yield "; ".join(left)
    if run.backlog and not batches:
        yield f"there was a backlog of {run.backlog} offsets, and no batch was published"
