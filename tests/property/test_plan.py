"""The plan of a batch, for any backlog and any bound."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.model.plan import fit, plan, share

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
@settings(max_examples=60)
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
