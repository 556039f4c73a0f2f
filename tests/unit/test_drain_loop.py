"""What a member's loop does at each look, without servers."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from tidemark.ledger.reader import Progress
from tidemark.model.batch import Batch, Contribution, PlannedSpan, SpanRead
from tidemark.model.offsets import Span, TopicPartition
from tidemark.runs._drain import LONGEST_WAIT_SECONDS, WAIT_SECONDS, Drain
from tidemark.runs._work import InHand, Otherwise, Work, next_step

ZERO, ONE = (TopicPartition("t", number) for number in (0, 1))
SPANS = tuple(PlannedSpan(Span("t", number, 0, 10), "id") for number in (0, 1))
N = Batch("r", 1, 7, SPANS, 2)
NEXT = replace(
    N, seq=8, spans=tuple(replace(s, span=replace(s.span, start=10, end=20)) for s in SPANS)
)


def claimed(batch: Batch, *numbers: int) -> Batch:
    """The batch with the spans of these partitions claimed."""
    spans = tuple(replace(s, claimed=s.span.partition in numbers) for s in batch.spans)
    return replace(batch, spans=spans, is_complete=len(numbers) == len(spans))


BOTH = InHand(N, Contribution(1, tuple(SpanRead(s.span, 1, 0, 10, 0) for s in SPANS), ()))
"""A contribution of both spans of n."""


def taken(step: Work | Otherwise) -> tuple[int, list[int]]:
    """Of which batch a member drains which partitions."""
    assert isinstance(step, Work)
    return step.batch.seq, [span.partition for span in step.spans]


def test_a_member_drains_its_spans_of_the_lowest_batch_that_has_any() -> None:
    """B18: of the next one where nothing of it is left."""
    assert taken(next_step([N, NEXT], {ZERO}, None)) == (7, [0])
    assert taken(next_step([claimed(N, 0), NEXT], {ZERO}, None)) == (8, [0])
    assert taken(next_step([N, NEXT], {ZERO, ONE}, BOTH)) == (8, [0, 1])


def test_a_member_without_spans_publishes_what_is_complete_or_plans_or_waits() -> None:
    done = claimed(N, 0, 1)
    assert next_step([], {ZERO}, None) is Otherwise.plan
    assert next_step([done, claimed(NEXT, 0)], {ZERO}, None) is Otherwise.publish
    assert next_step([done, claimed(NEXT, 0)], {ZERO}, BOTH) is Otherwise.wait
    assert next_step([claimed(N, 0), claimed(NEXT, 0, 1)], {ZERO}, None) is Otherwise.wait


class Loop:
    """A member that owns partition 0, in a run that is done after so many waits."""

    def __init__(self, batch: Batch, waits: int) -> None:
        self.batch, self.waits = batch, waits
        self.pauses: list[float] = []
        self.looks = 0
        ledger = SimpleNamespace(
            progress=lambda *_: Progress(1, 0, 0, len(self.pauses) >= waits, (7,)),
            unpublished_batches=self._look,
            show_member=lambda *_: None,
        )
        member = SimpleNamespace(assigned=lambda: frozenset({ZERO}), wait=self.pauses.append)
        run: Any = SimpleNamespace(
            ledger=ledger, member=member, region="r", epoch=1, number=1, sending=None,
            in_flight=2, group=None, is_expected=False, no_progress_seconds=300,
            is_fenced=lambda: False,
        )  # fmt: skip
        self.drain = Drain(run, lambda: 0)
        executor = SimpleNamespace(close=lambda: None)
        stager: Any = SimpleNamespace(
            executor=executor, active_read=SimpleNamespace(interrupt_if_reassigned=lambda: None)
        )
        self.drain._stager = stager

    def _look(self, *_: object) -> tuple[Batch, ...]:
        self.looks += 1
        return (self.batch,)


def test_who_has_nothing_to_do_asks_once_a_wait_and_ever_more_seldom() -> None:
    loop = Loop(claimed(N, 0), waits=6)
    loop.drain.work()
    longest = [LONGEST_WAIT_SECONDS] * 3
    assert loop.pauses == [WAIT_SECONDS, 2 * WAIT_SECONDS, 4 * WAIT_SECONDS, *longest]
    assert loop.looks == len(loop.pauses)
