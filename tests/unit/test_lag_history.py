"""Lag over time, from what opens and publishes left in the ledger."""

from datetime import UTC, datetime, timedelta

from tidemark.ledger.history import PastReset, TimedBatch
from tidemark.model.offsets import Offsets, Span, TopicPartition
from tidemark.model.state import Run
from tidemark.page.lags import NAMED, POINTS, LagHistory, LagPast, lag_history

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def at(seconds: float) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def run(epoch: int, seconds: float) -> Run:
    return Run(
        "r",
        epoch,
        "r",
        "closed",
        10,
        None,
        None,
        None,
        None,
        1,
        0,
        None,
        None,
        at(seconds),
        None,
        [],
        [],
    )


def batch(seq: int, seconds: float, state: str = "published") -> TimedBatch:
    return TimedBatch(seq, 1, "drain", state, 0, 0, 0, 1, 1, at(seconds - 1), None, at(seconds))


def rewind(from_seq: int, to_seq: int, seconds: float) -> PastReset:
    moment = at(seconds)
    return PastReset(
        9, "rewind", "ada", "why", None, [], from_seq, to_seq, 0, [], "finished", moment, moment
    )


def past(
    runs: list[Run],
    batches: list[TimedBatch],
    spans: list[tuple[int, Span]],
    ends: list[tuple[int, TopicPartition, int]],
    offsets: Offsets,
    resets: list[PastReset] | None = None,
) -> LagHistory:
    return lag_history(LagPast(runs, batches, spans, ends, resets or [], offsets))


def test_a_run_begins_with_its_backlog_and_ends_with_what_it_left() -> None:
    found = past(
        [run(1, 0)],
        [batch(2, 20), batch(1, 10)],
        [(1, Span("t", 0, 100, 150)), (1, Span("t", 1, 0, 10)), (2, Span("t", 0, 150, 170))],
        [(1, A, 180), (1, B, 10)],
        {A: 170, B: 10},
    )
    assert found.times == [at(0), at(10), at(20)]
    assert found.bands == {"t[0]": [80, 30, 10], "t[1]": [10, 0, 0]}
    assert found.worst == "t[0]"


def test_a_partition_that_nothing_was_read_of_stands_where_it_stands() -> None:
    found = past([run(1, 0)], [], [], [(1, A, 7)], {A: 5})
    assert found.bands == {"t[0]": [2]}


def test_a_rewind_brings_back_what_it_took_back() -> None:
    found = past(
        [run(1, 0), run(3, 40)],
        [batch(1, 10), batch(2, 20, "rewound"), batch(3, 50)],
        [(1, Span("t", 0, 0, 5)), (2, Span("t", 0, 5, 9)), (3, Span("t", 0, 5, 9))],
        [(1, A, 9), (3, A, 9)],
        {A: 9},
        [rewind(2, 1, 30)],
    )
    assert found.bands == {"t[0]": [9, 4, 0, 4, 4, 0]}


def test_records_that_came_between_runs_show_at_the_next_open() -> None:
    found = past(
        [run(1, 0), run(2, 20)],
        [batch(1, 10)],
        [(1, Span("t", 0, 0, 5))],
        [(1, A, 5), (2, A, 8)],
        {A: 5},
    )
    assert found.bands == {"t[0]": [5, 0, 3]}


def test_of_many_partitions_the_worst_are_named_and_the_others_are_added_up() -> None:
    many = [TopicPartition("t", n) for n in range(20)]
    ends = [(1, one, one.partition + 1) for one in many]
    found = past([run(1, 0)], [], [], ends, dict.fromkeys(many, 0))
    assert list(found.bands)[:2] == ["t[19]", "t[18]"]
    assert len(found.bands) == NAMED + 1
    assert found.bands["9 others"] == [sum(range(1, 10))]
    assert sum(values[0] for values in found.bands.values()) == sum(end for _, _, end in ends)


def test_a_long_past_is_thinned_and_keeps_its_end() -> None:
    batches = [batch(n, n) for n in range(1, 1000)]
    spans = [(n, Span("t", 0, n - 1, n)) for n in range(1, 1000)]
    found = past([run(1, 0)], batches, spans, [(1, A, 1000)], {A: 999})
    assert len(found.times) <= POINTS
    assert (found.times[-1], found.bands["t[0]"][-1]) == (at(999), 1)


def test_without_a_run_there_is_nothing_to_draw() -> None:
    assert past([], [], [], [], {}) == LagHistory([], {})
