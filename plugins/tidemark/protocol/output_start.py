"""Where an output begins: what was sent, as Kafka knows it, or as a person has to say it."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from tidemark.model.output import NOTHING_SENT, Sent, SentSeqs
from tidemark.protocol.errors import (
    MirrorOvertaken,
    OutputMarkUnknown,
    OutputResumeAfterWrong,
    OutputStartPruned,
    OutputStartUnsaid,
    OutputTailsUnread,
    ResumeFault,
)
from tidemark.protocol.output_ports import Output, Snapshot

UNREAD = -1
"""Stands for the newest batch in the topics where the group's offsets tell what was sent."""


class Seen(NamedTuple):
    """What Kafka tells of what was sent, and the ledger's own knowledge from before that."""

    marks: Collection[Sent]
    """What the metadata of the group's offsets says: one and the same on all partitions."""
    seqs: SentSeqs
    held: int | None
    """The newest batch of the region in the topics; None: they hold none, or too much of others to
    tell, and a person has told."""

    def told(self, snapshot: Snapshot) -> Sent | None:
        """The one batch of this ledger that is named, if it is no older than what is known."""
        found = [
            one for one in self.marks if one.seq >= self.seqs.read_back and snapshot.knows(one)
        ]
        return found[0] if len(self.marks) == len(found) == 1 else None


def look(region: str, output: Output, ask: Callable[[], Collection[Sent]], seqs: SentSeqs) -> Seen:
    """What was sent, as the metadata of the group's offsets says, which `ask` reads.

    The topics are read too where the metadata does not tell, and where later batches were begun to
    be sent and nobody heard how that ended: after a crash the metadata may be right, and where
    Kafka has lost newer offsets it is not. They are read outside of any snapshot, which Postgres
    would end meanwhile.

    Raises:
        Refused: they hold too much of others, and nobody has told.
        Fenced: a newer writer has sent while the topics were read.
    """
    seen = Seen(ask(), seqs, UNREAD)
    with output.snapshot(region) as snapshot:
        mark = seen.told(snapshot)
    if mark and mark.seq >= seqs.begun:
        return seen
    try:
        held = output.newest_seq(region)
    except OutputTailsUnread:
        if mark:
            return seen  # a crash is likelier than a crash and offsets lost after it
        if output.resume_after is None:
            raise
        held = None
    if {*ask()} != {*seen.marks}:
        raise MirrorOvertaken(region=region)
    return seen._replace(held=held)


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
        Refused: it is not known, or no batch of this ledger; the text says what to set.
        Fenced: the ledger knew the mark when the topics were looked at, and does not now.
    """
    mark, marks, held = seen.told(snapshot), seen.marks, seen.held
    if mark and (held or 0) <= mark.seq:
        return mark
    if held == UNREAD:
        raise MirrorOvertaken(region=region)
    if output.resume_after is not None:
        return _resumed(region, output, snapshot, held)
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


def keep_seqs(region: str, output: Output, held: int | None) -> None:
    """Where a person has said what was sent, no batch gets a seq that consumers may have met."""
    if held != UNREAD and output.resume_after is not None:
        output.raise_next_seq(region, max(held or 0, output.resume_after))


def _resumed(region: str, output: Output, snapshot: Snapshot, held: int | None) -> Sent:
    """Go on after the batch that a person named, if nothing speaks against it."""
    seq, history = output.resume_after or 0, snapshot.history()
    found = snapshot.newest_up_to(seq)
    is_oldest = seq == max(history.oldest_seq - 1, 0)
    at_least = history.sent_seq or 0
    # The newest batches may have sent no record.
    is_known = seq == at_least and (held or 0) <= seq
    fault: ResumeFault
    if held is not None and held != seq and not is_known and not (is_oldest and held < seq):
        fault = "held"
    elif seq < at_least:
        fault = "sent"
    elif seq < history.oldest_seq - 1:
        fault = "pruned"
    elif held is None and found.seq != seq and not is_oldest and not is_known:
        fault = "unknown"
    else:
        return found
    raise OutputResumeAfterWrong(
        region=region,
        seq=seq,
        fault=fault,
        topics=output.topics,
        held=held,
        sent_seq=at_least,
        oldest_seq=history.oldest_seq,
    )


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
