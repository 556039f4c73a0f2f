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
its commit had no answer, the next writer compares `sent` with the topic's own records. Where an
output begins, Kafka knows what was sent, or a person has to say it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from tidemark.model.batch import Checkpoint
from tidemark.model.offsets import Offsets, without
from tidemark.model.output import NOTHING_SENT, OutputHistory, OutputRecord, Sent, SentSeqs, Unsent
from tidemark.protocol.changes import differing
from tidemark.protocol.errors import (
    MirrorEpochPassed,
    MirrorOvertaken,
    OutputChangedSinceRun,
    OutputMarkUnknown,
    OutputResumeAfterWrong,
    OutputStartPruned,
    OutputStartUnsaid,
    OutputTailsUnread,
    ResumeFault,
)
from tidemark.protocol.ports import Group, Ledger, Output, Snapshot


class Tails(NamedTuple):
    """What the ends of the topics hold."""

    held: int | None
    """The newest batch of the region in the topics; None: they hold none of its records."""


class Seen(NamedTuple):
    """What Kafka tells of what was sent, and the ledger's own knowledge from before that."""

    marks: Collection[Sent]
    """What the metadata of the group's offsets says: one and the same on all partitions."""
    seqs: SentSeqs
    tails: Tails | OutputTailsUnread | None = None
    """The error: others have sent too much to read them. None: nobody had to read them, for the
    metadata tells what was sent."""

    @property
    def held(self) -> int | None:
        """The newest batch of the region that was found in the topics; None: none was found."""
        return self.tails.held if isinstance(self.tails, Tails) else None

    def newest_mark(self, snapshot: Snapshot) -> Sent | None:
        """The one batch of this ledger that is named, if it is no older than what is known."""
        found = [
            one for one in self.marks if one.seq >= self.seqs.read_back and snapshot.knows(one)
        ]
        return found[0] if len(self.marks) == len(found) == 1 else None


def find_sent(
    region: str, output: Output, ask: Callable[[], Collection[Sent]], seqs: SentSeqs
) -> Seen:
    """What was sent, as the metadata of the group's offsets says, which `ask` reads.

    The topics are read too where the metadata does not tell, and where later batches were begun to
    be sent and nobody heard how that ended: after a crash the metadata may be right, and where
    Kafka has lost newer offsets it is not. They are read outside of any snapshot, which Postgres
    would end meanwhile.

    Raises:
        Fenced: a newer writer has sent while the topics were read.
    """
    seen = Seen(ask(), seqs)
    with output.snapshot(region) as snapshot:
        mark = seen.newest_mark(snapshot)
    if mark and mark.seq >= seqs.begun:
        return seen
    tails: Tails | OutputTailsUnread
    try:
        tails = Tails(output.newest_seq(region))
    except OutputTailsUnread as unread:
        if mark:
            return seen  # a crash is likelier than a crash and offsets lost after it
        tails = unread
    if {*ask()} != {*seen.marks}:
        raise MirrorOvertaken(region=region)
    return seen._replace(tails=tails)


def begin(
    region: str,
    output: Output,
    snapshot: Snapshot,
    seen: Seen,
) -> Sent:
    """The newest batch that was sent: what follows it is sent next.

    The metadata names it, if it names one batch of this ledger, and neither the ledger nor the
    topics know a later one as sent. Where it names none, the region begins, if the ledger never
    published anything and the topics hold nothing of it; or a person says where.

    Raises:
        Refused: it is not known, or no batch of this ledger, or the topics could not be read; the
            text says what to set.
        Fenced: the ledger knew the mark when the topics were looked at, and does not now.
    """
    mark, marks, held = seen.newest_mark(snapshot), seen.marks, seen.held
    if mark and (held or 0) <= mark.seq:
        return mark
    if seen.tails is None:
        raise MirrorOvertaken(region=region)
    if output.resume_after is not None:
        return _resumed(region, output, snapshot, held)
    if isinstance(seen.tails, OutputTailsUnread):
        raise seen.tails
    if marks or held is not None:
        history = snapshot.history()
        raise OutputMarkUnknown(
            region=region,
            marks=tuple(sorted(marks, key=str)),
            topics=output.topics,
            held=held,
            sent_seq=history.sent_seq,
            is_too_old=len(marks) == 1 and snapshot.knows(next(iter(marks))),
            was_published=history.was_published,
        )
    return _first(region, output, snapshot)


def keep_seqs(region: str, output: Output, seen: Seen) -> None:
    """Where a person has said what was sent, no batch gets a seq that consumers may have met."""
    if seen.tails is not None and output.resume_after is not None:
        output.raise_next_seq(region, max(seen.held or 0, output.resume_after))


def _resumed(region: str, output: Output, snapshot: Snapshot, held: int | None) -> Sent:
    """Go on after the batch that a person named, if nothing speaks against it."""
    seq, history = output.resume_after or 0, snapshot.history()
    found = snapshot.newest_up_to(seq)
    if fault := _resume_fault(seq, found.seq, held, history):
        raise OutputResumeAfterWrong(
            region=region,
            seq=seq,
            fault=fault,
            topics=output.topics,
            held=held,
            sent_seq=history.sent_seq or 0,
            oldest_seq=history.oldest_seq,
        )
    return found


def _resume_fault(
    seq: int, newest: int, held: int | None, history: OutputHistory
) -> ResumeFault | None:
    """What speaks against this batch as the newest one that was sent.

    `newest` is the newest batch up to it; `held` the newest batch that the topics hold.
    """
    sent_seq, pruned_seq = history.sent_seq or 0, max(history.oldest_seq - 1, 0)
    # The newest batch may have sent no record; what is pruned can't be looked up.
    needs_no_record = seq in (sent_seq, pruned_seq)
    if held is not None and held != seq and not (needs_no_record and held < seq):
        return "held"
    if seq < sent_seq:
        return "sent"
    if seq < pruned_seq:
        return "pruned"
    if held is None and newest != seq and not needs_no_record:
        return "unknown"
    return None


def _first(region: str, output: Output, snapshot: Snapshot) -> Sent:
    """Nothing is known to be sent, and the topic holds nothing of the region."""
    history = snapshot.history()
    if not history.was_published and history.sent_seq is None:
        return NOTHING_SENT
    if history.sent_seq is not None or output.start is None:
        raise OutputStartUnsaid(region=region, topics=output.topics, sent_seq=history.sent_seq)
    if output.start == "end":
        return history.head
    if history.oldest_seq:
        raise OutputStartPruned(region=region, oldest_seq=history.oldest_seq)
    return NOTHING_SENT


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
    ledger: Ledger,
    group: Group,
    region: str,
    epoch: int,
    at: int | None,
    gone: frozenset[str],
) -> Iterator[Due]:
    """Yield what a writer that has fenced earlier ones must write; read its records inside.

    Send nothing where no partition takes an offset: what was sent is kept in an offset's metadata.

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
    seen = find_sent(region, output, lambda: group.sent(offsets), seqs)
    with output.snapshot(region) as snapshot:
        _refuse_other_epoch(snapshot.checkpoint(at), epoch)
        sent = begin(region, output, snapshot, seen)
        keep_seqs(region, output, seen)
        unsent = snapshot.unsent(sent) if at is None else ()
        chosen = fitting(unsent, output.max_rows)
        is_all = len(chosen) == len(unsent)
        checkpoint = snapshot.checkpoint(at if is_all else chosen[-1].seq)
        if chosen:
            output.begin_sending(region, chosen[-1].seq)
        yield Due(
            checkpoint=checkpoint,
            offsets=without(gone, checkpoint.offsets),
            sent=chosen[-1].sent if chosen else sent,
            records=_records(snapshot, chosen),
            is_all=is_all,
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
