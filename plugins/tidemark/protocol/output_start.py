"""Where an output begins: what was sent, as Kafka knows it, or as a person has to say it."""

from collections.abc import Collection

from tidemark.model.output import NOTHING_SENT, Sent
from tidemark.protocol.errors import (
    OutputMarkUnknown,
    OutputResumeAfterWrong,
    OutputStartPruned,
    OutputStartUnsaid,
    ResumeFault,
)
from tidemark.protocol.output_ports import Output, Snapshot


def begin(
    region: str, output: Output, snapshot: Snapshot, marks: Collection[Sent], at_least: int
) -> Sent:
    """The newest batch that was sent: what follows it is sent next.

    `marks` are what the metadata of the group's offsets say, which is one and the same on all
    partitions, and no older than `at_least`, which the ledger knew as sent before they were read.
    Where there is none, the region begins, if the ledger never published anything and the topic
    holds nothing of it; or a person says where.

    Raises:
        Refused: it is not known, or no batch of this ledger; the text says what to set.
    """
    if len(marks) == 1 and snapshot.knows(mark := next(iter(marks))) and mark.seq >= at_least:
        return mark
    held = output.newest_seq(region)
    if output.resume_after is not None:
        found = _resumed(region, output, snapshot, held)
        output.raise_next_seq(region, max(held or 0, output.resume_after))
        return found
    if marks or held is not None:
        raise OutputMarkUnknown(
            region=region,
            marks=tuple(sorted(marks, key=str)),
            topics=output.topics,
            held=held,
            sent_seq=snapshot.history().sent_seq,
            is_too_old=len(marks) == 1 and snapshot.knows(next(iter(marks))),
        )
    return _first(region, output, snapshot)


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
