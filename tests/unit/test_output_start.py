"""Where an output goes on when the group's offsets do not say what was sent."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from tidemark.model.output import NOTHING_SENT, NOWHERE, OutputHistory, Sent, SentSeqs, Topics
from tidemark.protocol.errors import (
    OutputMarkUnknown,
    OutputResumeAfterWrong,
    OutputTailsUnread,
)
from tidemark.protocol.output import Seen, Tails, begin, find_sent, keep_seqs

BATCHES = [Sent(seq, UUID(int=seq)) for seq in (1, 2, 3)]


@dataclass
class Known:
    """A ledger and a topic: the newest batch that each knows as sent, and what a person says."""

    held: int | None
    at_least: int | None
    resume_after: int | None
    published: int = 3
    raised: list[int] = field(default_factory=list)
    start: str | None = None
    topics: Topics = NOWHERE

    def history(self) -> OutputHistory:
        return OutputHistory(True, 0, self.at_least, self.newest_up_to(9))

    def newest_up_to(self, seq: int) -> Sent:
        found = [one for one in BATCHES[: self.published] if one.seq <= seq]
        return found[-1] if found else NOTHING_SENT

    def newest_seq(self, region: str) -> int | None:
        return self.held

    def raise_next_seq(self, region: str, seq: int) -> None:
        self.raised.append(seq)


def begun(known: Any) -> Sent:
    seen = Seen(set(), SentSeqs(), Tails(known.held))
    found = begin("r", known, known, seen)
    keep_seqs("r", known, seen)
    return found


@pytest.mark.parametrize("held", [1, None])
def test_the_newest_batches_may_have_sent_no_record(held: int | None) -> None:
    """B9: the topic names an older one than the ledger; what is advised is taken."""
    with pytest.raises(OutputMarkUnknown) as unknown:
        begun(Known(1, 2, None))
    assert (unknown.value.held, unknown.value.sent_seq, unknown.value.best) == (1, 2, 2)
    with pytest.raises(OutputResumeAfterWrong) as wrong:
        begun(Known(1, 2, 1))
    assert (wrong.value.fault, wrong.value.seq, wrong.value.best) == ("sent", 1, 2)
    assert begun(Known(held, 2, 2)) == BATCHES[1]
    assert begun(Known(1, 1, 1)) == BATCHES[0]


def test_a_ledger_from_before_what_the_topic_holds_gives_out_later_seqs() -> None:
    """B9: none that consumers have met."""
    restored = Known(45, 1, 45, published=1)
    assert begun(restored) == BATCHES[0]
    assert restored.raised == [45]


@pytest.mark.parametrize("wrong", [0, 1, 3, 9])
def test_nothing_else_is_taken(wrong: int) -> None:
    """B9"""
    with pytest.raises(OutputResumeAfterWrong) as refused:
        begun(Known(2, 2, wrong))
    assert refused.value.seq == wrong


@dataclass
class Crowded(Known):
    """Others have sent too much to the topic since."""

    def newest_seq(self, region: str) -> int | None:
        raise OutputTailsUnread(region=region, partitions=())

    @contextmanager
    def snapshot(self, region: str) -> Iterator["Crowded"]:
        yield self

    def knows(self, sent: Sent) -> bool:
        return sent in BATCHES


def test_a_person_tells_where_a_topic_is_too_full_to_tell() -> None:
    """B9, B16, G100"""
    crowded: Any = Crowded(None, 2, 2)
    seen = find_sent("r", crowded, set, SentSeqs(2))
    assert begin("r", crowded, crowded, seen) == BATCHES[1]
    crowded.resume_after = None
    with pytest.raises(OutputTailsUnread):
        begin("r", crowded, crowded, seen)


def test_a_topic_too_full_to_tell_is_not_taken_for_an_empty_one() -> None:
    """B9, B16, G100: a region that never published begins where the topics are seen to be empty."""
    crowded: Any = Crowded(None, None, None, published=0, start="beginning")
    with pytest.raises(OutputTailsUnread):
        begin("r", crowded, crowded, find_sent("r", crowded, set, SentSeqs()))


def test_a_topic_too_full_to_tell_keeps_nobody_from_going_on_after_a_crash() -> None:
    """B9: the mark is one of the ledger's, and no older than what was read back."""
    crowded: Any = Crowded(None, 1, None)
    seen = find_sent("r", crowded, lambda: {BATCHES[0]}, SentSeqs(1, begun=2))
    assert begin("r", crowded, crowded, seen) == BATCHES[0]
