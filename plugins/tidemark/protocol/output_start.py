"""Where an output begins: what was sent, as Kafka knows it, or as a person has to say it."""

from collections.abc import Collection

from tidemark.errors import Refused
from tidemark.model.output import NOTHING_SENT, Sent
from tidemark.protocol.output_ports import Output, Snapshot


def begin(region: str, output: Output, snapshot: Snapshot, marks: Collection[Sent]) -> Sent:
    """The newest batch that was sent: what follows it is sent next.

    `marks` are what the metadata of the group's offsets say, which is one and the same on all
    partitions. Where there is none, the region begins, if the ledger never published anything and
    the topic holds nothing of it; or a person says where.

    Raises:
        Refused: it is not known, or no batch of this ledger; the text says what to set.
    """
    if len(marks) == 1 and snapshot.knows(mark := next(iter(marks))):
        return mark
    held = output.newest_seq(region)
    if output.resume_after is not None:
        found = _resumed(region, output, snapshot, held)
        output.raise_next_seq(region, max(held or 0, output.resume_after))
        return found
    if marks or held is not None:
        raise _unknown(region, output, marks, held, snapshot.history().sent_seq)
    return _first(region, output, snapshot)


def _resumed(region: str, output: Output, snapshot: Snapshot, held: int | None) -> Sent:
    """Go on after the batch that a person named, if nothing speaks against it."""
    seq, history = output.resume_after or 0, snapshot.history()
    found = snapshot.newest_up_to(seq)
    is_oldest = seq == max(history.oldest_seq - 1, 0)
    at_least = history.sent_seq or 0
    # The newest batches may have sent no record.
    is_known = seq == at_least and (held or 0) <= seq
    if held is not None and held != seq and not is_known and not (is_oldest and held < seq):
        fault = f"the newest record of the region in {output.topics.named} is of batch {held}"
    elif seq < at_least:
        fault = f"the ledger knows that batch {at_least} was sent"
    elif seq < history.oldest_seq - 1:
        fault = f"batches before {history.oldest_seq} are pruned, and can't be sent any more"
    elif held is None and found.seq != seq and not is_oldest and not is_known:
        fault = "the ledger holds no such batch"
    else:
        return found
    best = max(at_least, history.oldest_seq - 1, held or 0)
    raise Refused(
        f"region {region}: output.resume_after is {seq}, but {fault}. Nothing was sent. Set"
        f" output.resume_after: {best}"
    )


def _unknown(
    region: str,
    output: Output,
    marks: Collection[Sent],
    held: int | None,
    at_least: int | None,
) -> Refused:
    if not marks:
        found = "the offsets of the group do not say what was sent: Kafka has lost them"
    elif len(marks) > 1:
        found = f"the offsets of the group name different batches as sent: {_named(marks)}"
    else:
        found = (
            f"{_named(marks)} was sent, and is no batch of this ledger: it was restored from a"
            " backup, or the region was dropped and made again"
        )
    there = f"batch {held}" if held is not None else "none"
    known = [seq for seq in (held, at_least) if seq is not None]
    seq = max(known) if known else "SEQ"
    return Refused(
        f"region {region}: {found}. Nothing was sent. The newest batch of the region in"
        f" {output.topics.named} is {there}: to send what was published after it, set"
        f" output.resume_after: {seq}"
    )


def _named(marks: Collection[Sent]) -> str:
    return ", ".join(f"batch {one.seq} ({one.uuid})" for one in sorted(marks, key=str))


def _first(region: str, output: Output, snapshot: Snapshot) -> Sent:
    """Nothing is known to be sent, and the topic holds nothing of the region."""
    history = snapshot.history()
    if not history.was_published and history.sent_seq is None:
        return NOTHING_SENT
    if history.sent_seq is not None or output.start is None:
        raise Refused(
            f"region {region}: nothing says which of its batches were sent to"
            f" {output.topics.named}: none of them is there. If none ever was, set output.start:"
            " beginning (all batches) or end (later ones alone). If Kafka has lost the group's"
            " offsets, set output.resume_after to the newest batch that was sent"
            + (f": the ledger knows of {history.sent_seq}" if history.sent_seq is not None else "")
        )
    if output.start == "end":
        return history.head
    if history.oldest_seq:
        raise Refused(
            f"region {region}: output.start is beginning, but batches before {history.oldest_seq}"
            " are pruned: their rows can't be counted. Set output.start: end, or"
            f" output.resume_after: {history.oldest_seq - 1}"
        )
    return NOTHING_SENT
