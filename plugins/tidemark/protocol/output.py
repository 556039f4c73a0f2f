"""The output: published rows go to a topic once each, in the mirror's own Kafka transaction.

  1 `sent`      the newest batch that was sent, from the metadata of the group's offsets, after the
                writer has fenced every earlier one
  2 ledger      one snapshot: the epoch, that it knows the batch, what was published after it
  3 begin       the ledger keeps which batches may be sent from now on
  4 send        whole batches in the order of their seqs, then the offsets as of the last of them,
                with it as `sent`: all of it, or nothing
`sent` never falls. A rewind sends nothing and leaves it as it is: what was sent stays sent. A batch
that a person has withheld sends nothing, and `sent` passes it: see `withhold.py`.

If it crashes: Kafka ends the transaction, or the next writer does; nothing of it was visible. Where
its commit had no answer, the next writer compares `sent` with the topic's own records.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tidemark.model.batch import Checkpoint
from tidemark.model.offsets import Offsets, without
from tidemark.model.output import OutputRecord, Sent, Unsent
from tidemark.protocol.changes import differing
from tidemark.protocol.errors import MirrorEpochPassed, OutputChangedSinceRun
from tidemark.protocol.output_ports import Output, Snapshot
from tidemark.protocol.output_start import begin, keep_seqs, look
from tidemark.protocol.ports import Deciding, Group, Ledger


@dataclass(frozen=True, slots=True)
class Due:
    """What one Kafka transaction of the mirror writes."""

    checkpoint: Checkpoint
    offsets: Offsets
    """Of the checkpoint, those that Kafka takes."""
    sent: Sent | None = None
    """The newest batch that is sent then; None: there is no output topic, or nothing is sent."""
    records: Iterable[OutputRecord] = ()
    is_all: bool = True
    """Nothing that is published is left to be sent."""

    @property
    def metadata(self) -> str:
        """What stands beside each offset."""
        one = self.checkpoint
        mark = f"{one.region}/{one.epoch}/{one.seq}"
        return f"{mark}/{self.sent}" if self.sent else mark


@contextmanager
def due(
    ledger: Ledger[Deciding],
    group: Group,
    region: str,
    epoch: int,
    at: int | None,
    gone: frozenset[str],
) -> Iterator[Due]:
    """What a writer has to write that has just fenced the others; its records are read inside.

    Where Kafka takes no offset at all, nothing is sent: it could not be told beside one.

    Raises:
        Fenced: the region has another epoch.
        Refused: see `begin` and `refuse_other_output`; or, while the records are read, the rows are
            not those that were published.
    """
    output, checkpoint = group.output, ledger.merged_checkpoint(region, at)
    _refuse_other_epoch(checkpoint, epoch)
    refuse_other_output(checkpoint, output)
    offsets = without(gone, checkpoint.offsets)
    if output is None or not offsets:
        yield Due(checkpoint, offsets)
        return
    seqs = output.sent_seqs(region)  # first: whoever kept them had read them in Kafka
    seen = look(region, output, lambda: group.sent(offsets), seqs)
    with output.snapshot(region) as snapshot:
        _refuse_other_epoch(snapshot.checkpoint(at), epoch)
        sent = begin(region, output, snapshot, seen)
        keep_seqs(region, output, seen.held)
        unsent = snapshot.unsent(sent) if at is None else ()
        chosen = fitting(unsent, output.max_rows)
        is_all = len(chosen) == len(unsent)
        checkpoint = snapshot.checkpoint(at if is_all else chosen[-1].seq)
        if chosen:
            output.begin_sending(region, chosen[-1].seq)
        yield Due(
            checkpoint,
            without(gone, checkpoint.offsets),
            chosen[-1].sent if chosen else sent,
            _records(snapshot, chosen),
            is_all,
        )


def fitting(unsent: Sequence[Unsent], max_rows: int) -> Sequence[Unsent]:
    """The first batches, as many as one transaction holds: one at least, each of them whole."""
    rows = 0
    for number, batch in enumerate(unsent):
        rows += batch.records
        if number and rows > max_rows:
            return unsent[:number]
    return unsent


def refuse_other_output(checkpoint: Checkpoint, output: Output | None) -> None:
    """Refuse a mirror that would lose what was sent, or send what no open has begun.

    A region without partitions never opened: nothing was sent, and nothing can be.

    Raises:
        Refused: the region's newest run sends elsewhere, otherwise, or nothing.
    """
    known, now = checkpoint.sends, output.sends if output else {}
    if checkpoint.offsets and known != now:
        raise OutputChangedSinceRun(region=checkpoint.region, changes=differing(known, now))


def _records(snapshot: Snapshot, batches: Sequence[Unsent]) -> Iterator[OutputRecord]:
    for batch in batches:
        if not batch.is_withheld:
            yield from snapshot.records(batch)


def _refuse_other_epoch(checkpoint: Checkpoint, epoch: int) -> None:
    if checkpoint.epoch != epoch:
        raise MirrorEpochPassed(region=checkpoint.region, epoch=epoch, now_at=checkpoint.epoch)
