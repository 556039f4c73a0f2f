"""The plan of a batch, for any backlog and any bound."""

from collections.abc import Iterator
from itertools import islice, pairwise

from hypothesis import given
from hypothesis import strategies as st

from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.model.plan import (
    FEWEST_OFFSETS,
    FIRST_OFFSETS,
    MOST_SIZES,
    BatchRoom,
    BatchSizes,
    Bounds,
    SizedBy,
    SizeTaken,
    fit,
    plan,
    share,
)

PARTITIONS = [TopicPartition(topic, number) for topic in ("a", "b") for number in range(4)]
backlogs = st.dictionaries(st.sampled_from(PARTITIONS), st.integers(0, 10_000))
small_backlogs = st.dictionaries(st.sampled_from(PARTITIONS), st.integers(0, 25), min_size=1)
bounds = st.integers(1, 20_000)
turns = st.integers(1, 10_000)


def at_zero(backlog: Offsets) -> Offsets:
    """Next offsets of partitions that stand at their beginning."""
    return dict.fromkeys(backlog, 0)


@given(backlogs, bounds, turns)
def test_a_batch_takes_all_it_may_and_never_more(
    backlog: Offsets, max_records: int, turn: int
) -> None:
    """S28."""
    spans = plan(at_zero(backlog), backlog, max_records, turn)
    assert sum(span.width for span in spans) == min(max_records, sum(backlog.values()))


@given(backlogs, bounds, turns)
def test_a_backlog_gives_a_span_and_none_gives_none(
    backlog: Offsets, max_records: int, turn: int
) -> None:
    """H15."""
    assert bool(plan(at_zero(backlog), backlog, max_records, turn)) == any(backlog.values())


@given(backlogs, bounds, turns)
def test_shares_are_equal_up_to_one_but_for_those_with_less(
    backlog: Offsets, max_records: int, turn: int
) -> None:
    """S29: max-min fair: who got less than another has nothing left."""
    shares = share({p: n for p, n in backlog.items() if n}, max_records, turn)
    unsated = [got for p, got in shares.items() if got < backlog[p]]
    assert max(unsated, default=0) - min(unsated, default=0) <= 1
    assert all(got <= min(unsated, default=got) + 1 for got in shares.values())


@given(backlogs, bounds, turns, st.randoms(use_true_random=False))
def test_the_same_facts_give_the_same_plan(
    backlog: Offsets, max_records: int, turn: int, random: object
) -> None:
    shuffled = list(backlog.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    expected = plan(at_zero(backlog), backlog, max_records, turn)
    assert plan(at_zero(backlog), dict(shuffled), max_records, turn) == expected
    assert list(expected) == sorted(expected)


@given(backlogs, backlogs, bounds, turns)
def test_a_span_starts_at_the_next_offset_and_ends_at_most_at_the_target(
    starts: Offsets, backlog: Offsets, max_records: int, turn: int
) -> None:
    next_offsets = {p: starts.get(p, 0) for p in PARTITIONS}
    for span in plan(next_offsets, backlog, max_records, turn):
        assert span.start == next_offsets[span.topic_partition]
        assert span.end <= backlog[span.topic_partition]


@given(small_backlogs, st.integers(1, 7), turns)
def test_the_backlog_is_read_exactly_once_whatever_the_bound(
    backlog: Offsets, max_records: int, seq: int
) -> None:
    next_offsets, batches = at_zero(backlog), 0
    while spans := plan(next_offsets, backlog, max_records, seq + batches):
        for span in spans:
            assert span.start == next_offsets[span.topic_partition]
            next_offsets[span.topic_partition] = span.end
        batches += 1
    assert next_offsets == backlog
    assert batches == -(-sum(backlog.values()) // max_records)


@given(st.integers(1, 8), st.integers(1, 8), turns)
def test_nobody_waits_longer_than_one_round(count: int, max_records: int, seq: int) -> None:
    """The remainder rotates: ceil(partitions / max_records) batches bring everyone a record."""
    targets = dict.fromkeys(PARTITIONS[:count], 1_000)
    next_offsets = at_zero(targets)
    rounds = -(-count // max_records)
    served: set[TopicPartition] = set()
    for turn in range(seq, seq + rounds):
        for span in plan(next_offsets, targets, max_records, turn):
            served.add(span.topic_partition)
            next_offsets[span.topic_partition] = span.end
    assert served == set(targets)


weights = st.dictionaries(st.sampled_from(PARTITIONS), st.floats(0, 500))


@given(backlogs, bounds, turns, weights, st.integers(1, 1_000_000))
def test_a_batch_weighs_no_more_than_it_may_but_holds_at_least_one_offset(
    backlog: Offsets,
    max_records: int,
    turn: int,
    weight: dict[TopicPartition, float],
    max_bytes: int,
) -> None:
    spans = fit(at_zero(backlog), backlog, max_records, turn, weight, max_bytes)
    width = sum(span.width for span in spans)
    assert width <= max_records
    assert bool(spans) == any(backlog.values())
    heavy = sum(weight.get(span.topic_partition, 0.0) * span.width for span in spans)
    assert heavy <= max_bytes or width == 1


@given(backlogs, bounds, turns)
def test_without_known_weights_bytes_bound_nothing(
    backlog: Offsets, max_records: int, turn: int
) -> None:
    spans = plan(at_zero(backlog), backlog, max_records, turn)
    assert fit(at_zero(backlog), backlog, max_records, turn, {}, 1) == spans


numbers = st.integers(1, 10**8)
times = st.none() | st.floats(0, 10**5)
taken = st.builds(SizeTaken, numbers, numbers, times)
bounded = st.builds(
    Bounds, numbers, max_bytes=st.none() | numbers, seconds=st.none() | st.integers(1, 600)
)


@given(bounded, st.lists(taken, max_size=3), st.none() | st.integers(0, 6))
def test_a_batch_has_room_for_one_offset_and_never_for_more_than_a_bound(
    bound: Bounds, found: list[SizeTaken], since_reset: int | None
) -> None:
    """S28, H15: whatever the ledger says of the batches before it."""
    room = BatchRoom.of(bound, BatchSizes.of(found), since_reset)
    assert 1 <= room.offsets <= bound.max_records
    if bound.seconds is None:
        assert room.most is None
    elif found:
        newest = found[0]
        assert room.most <= max(newest.most, 2 * newest.offsets, FEWEST_OFFSETS)  # type: ignore[operator]


seconds_of_a_batch = st.integers(2, 60)
rates = st.integers(1_000, 10**6)
fixed_shares = st.floats(0, 0.49)
in_flight = st.integers(1, 2)


def widths(
    seconds: int, rate: float, fixed: float, in_flight: int, history: list[SizeTaken]
) -> Iterator[int]:
    """Batches without an end, of a constant rate beside a constant time of their own."""
    while True:
        known = [one if n >= in_flight - 1 else one._replace(seconds=None)
                 for n, one in enumerate(reversed(history))]  # fmt: skip
        room = BatchRoom.of(Bounds(10**9, seconds=seconds), BatchSizes.of(known[:MOST_SIZES]), None)
        yield room.offsets
        assert room.most is not None
        history.append(SizeTaken(room.most, room.offsets, fixed + room.offsets / rate))


@given(seconds_of_a_batch, rates, fixed_shares, in_flight, st.lists(taken, max_size=2))
def test_at_a_constant_rate_batches_come_to_one_size_that_takes_the_time(
    seconds: int, rate: int, share: float, in_flight: int, before: list[SizeTaken]
) -> None:
    """No size is left again but for the next offset, to which half an offset is rounded."""
    fixed = share * seconds
    found = list(islice(widths(seconds, rate, fixed, in_flight, list(before)), 250))
    at_rest, wanted = found[-20:], max(FEWEST_OFFSETS, rate * (seconds - fixed))
    assert max(at_rest) - min(at_rest) <= 1
    assert 0.99 * wanted - 2 * rate < min(at_rest) <= wanted + 1


@given(seconds_of_a_batch, rates, fixed_shares, in_flight)
def test_at_a_constant_rate_no_batch_but_the_first_ones_takes_longer_than_it_may(
    seconds: int, rate: int, share: float, in_flight: int
) -> None:
    fixed = share * seconds
    found = list(islice(widths(seconds, rate, fixed, in_flight, []), 40))
    assert found[:in_flight] == [FIRST_OFFSETS] * in_flight
    longest = max(FEWEST_OFFSETS, rate * (seconds - fixed) + 1)
    for one, later in zip(found, found[in_flight:], strict=False):
        assert later <= longest or later < one, "what was too large falls"
    assert all(later <= 2 * one for one, later in pairwise(found))


@given(seconds_of_a_batch, rates, st.floats(0.001, 1), in_flight, st.integers(0, 12))
def test_where_records_become_slow_batches_fall_to_what_the_time_allows(
    seconds: int, rate: int, slower: float, in_flight: int, quick: int
) -> None:
    """However large they have grown until then; it may first look like a job that takes long."""
    history: list[SizeTaken] = []
    for _ in islice(widths(seconds, rate, 0, in_flight, history), quick + 1):
        pass
    slow = rate * slower
    found = list(islice(widths(seconds, slow, 0, in_flight, history), 20))
    longest = max(FEWEST_OFFSETS, slow * seconds)
    assert max(found) <= 6 * max(longest, *found[:in_flight])
    assert found[-1] <= 4 * longest


@given(seconds_of_a_batch, rates, st.floats(0.5, 20), in_flight)
def test_a_job_that_takes_long_whatever_it_reads_does_not_make_batches_small(
    seconds: int, rate: int, share: float, in_flight: int
) -> None:
    """Half of the time goes to records, but for a few batches in fifty that show it anew."""
    fixed = share * seconds
    found = list(islice(widths(seconds, rate, fixed, in_flight, []), 200))[50:]
    spent = sum(fixed + width / rate for width in found)
    assert sum(found) / spent > rate / 4


@given(numbers, st.integers(FEWEST_OFFSETS, 10**8), st.floats(6, 10**5))
def test_a_batch_that_took_too_long_makes_the_next_one_smaller_at_once(
    most: int, offsets: int, took: float
) -> None:
    """However small it was beside what it might have been."""
    slow = BatchSizes.of([SizeTaken(max(most, offsets), offsets, took)])
    room = BatchRoom.of(Bounds(10**9, seconds=5), slow, None)
    assert abs(room.offsets - max(FEWEST_OFFSETS, offsets * 5 / took)) <= 1
    assert room.by is SizedBy.seconds


@given(st.integers(1, 10**6), st.floats(0, 5))
def test_a_small_batch_that_was_quick_enough_teaches_nothing(offsets: int, took: float) -> None:
    """The last one of a run, or one that bytes or a slow start made small."""
    most = 2 * offsets + 1
    small = BatchSizes.of([SizeTaken(most, offsets, took)])
    assert BatchRoom.of(Bounds(10**9, seconds=5), small, None).offsets == most
