"""Rewinds: target, ledger and Kafka go back together, or nothing does."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.support.desk import TOPIC, Desk
from tests.support.failpoint import failpoint, meanwhile
from tests.support.world import dump

from tidemark.errors import Fenced, Superseded, TargetRefused
from tidemark.failpoints import FailpointHit
from tidemark.ledger.queries import LedgerQueries
from tidemark.model.batch import ONLY
from tidemark.model.offsets import Span, TopicPartition
from tidemark.model.overrides import ACCEPT_DATA_LOSS
from tidemark.model.plan import Bounds
from tidemark.postgres.transaction import TIMEOUTS_MS
from tidemark.protocol.errors import (
    AlreadyReset,
    LookedTooEarly,
    RewindNotReadable,
    RewindOfLeftTopics,
    RewindPlaceUnknown,
    TargetsChanged,
)
from tidemark.protocol.open import OpenRequest
from tidemark.protocol.reset import RewindRequest
from tidemark.protocol.settle import rewind, settle

pytestmark = pytest.mark.parametrize(
    "ledger_database", ["18", pytest.param("15", marks=pytest.mark.long)], indirect=True
)

FIRST, SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
MONDAY = "flights_reset/monday"


@pytest.fixture
def worked(desk: Desk) -> Desk:
    """A region with three checkpoints of four offsets in each partition, and two left to read."""
    epoch = desk.open("first", Bounds(8)).epoch
    desk.work(epoch)
    desk.work(epoch)
    desk.grow(4, 0)
    desk.grow(4, 1)
    desk.work(desk.open("second", Bounds(8)).epoch)
    return desk


def stands_at(desk: Desk, offset: int) -> None:
    """Ledger, Kafka, target and dead letters all stand at this offset."""
    assert set(desk.offsets().values()) == {offset}
    assert desk.group.offsets == desk.offsets()
    assert desk.rows() == desk.expected_rows()
    assert all(at < offset for _, at in desk.dead_letters())
    assert LedgerQueries(desk.engine).broken_chains(desk.region) == []


def test_a_rewind_takes_rows_dead_letters_ledger_and_kafka_back(worked: Desk) -> None:
    """B4, S15."""
    assert any(offset >= 8 for _, offset in worked.dead_letters())
    worked.rewind(1)
    stands_at(worked, 4)
    state = worked.ledger.region_state(worked.region)
    assert state is not None
    assert state.head_seq == 1


def test_what_was_removed_is_read_again_under_a_new_seq(worked: Desk) -> None:
    """H20: rewound spans do not stand in the way of the same offsets."""
    worked.rewind(1)
    epoch = worked.open("again").epoch
    while worked.plan(epoch):
        worked.work(epoch)
    assert set(worked.offsets().values()) == {14}
    assert worked.rows() == worked.expected_rows()
    seqs = f"SELECT seq, state FROM tidemark.batches WHERE {worked.here} ORDER BY seq"
    found = worked.sql(seqs)
    assert found[:3] == [(1, "published"), (2, "rewound"), (3, "rewound")]
    assert min(seq for seq, _ in found[3:]) > 3


def test_a_rewind_to_the_initial_state_gives_the_same_position_every_time(worked: Desk) -> None:
    """S8: initial offsets are kept, whatever happened since."""
    for _ in range(2):
        worked.rewind(0)
        stands_at(worked, 0)
        assert worked.rows() == []
        worked.work(worked.open("again").epoch)
        assert worked.rows() == worked.expected_rows()


def test_a_partition_that_came_after_the_checkpoint_goes_back_to_its_initial_offset(
    worked: Desk,
) -> None:
    third = TopicPartition(TOPIC, 2)
    worked.ends[third] = 5
    worked.log_starts[third] = 0
    worked.work(worked.open("third").epoch)
    assert worked.offsets()[third] == 5
    worked.rewind(2)
    assert worked.offsets() == {FIRST: 8, SECOND: 8, third: 0} == worked.group.offsets
    assert worked.rows() == worked.expected_rows()


def test_a_quiet_partition_keeps_the_offset_of_its_last_span(desk: Desk) -> None:
    """The ancestor lost a partition that had no records since the checkpoint before."""
    desk.work(desk.open("first").epoch)
    desk.grow(5, 0)
    desk.work(desk.open("second").epoch)
    desk.grow(5, 0)
    desk.work(desk.open("third").epoch)
    desk.rewind(2)
    assert desk.offsets() == {FIRST: 15, SECOND: 10} == desk.group.offsets


def test_checkpoints_are_ordered_as_numbers(desk: Desk) -> None:
    """The ancestor compared checkpoint ids as text: 1000 came before 999."""
    desk.sql(f"UPDATE tidemark.regions SET next_seq = 998 WHERE {desk.here}")
    epoch = desk.open("first", Bounds(4)).epoch
    for _ in range(4):
        desk.work(epoch)
    assert [one.seq for one in LedgerQueries(desk.engine).checkpoints(desk.region)] == [
        1001,
        1000,
        999,
        998,
    ]
    desk.rewind(1000)
    assert set(desk.offsets().values()) == {6}
    assert desk.rows() == desk.expected_rows()


@pytest.mark.parametrize("to_seq", [7, 2, 4])
def test_a_rewind_to_no_checkpoint_is_refused_and_changes_nothing(
    worked: Desk, to_seq: int
) -> None:
    """One that was never there, that is rewound, that is planned and not published."""
    worked.rewind(1)
    worked.must_plan(worked.open("third", Bounds(2)).epoch)
    before = dump(worked.warehouse)
    with pytest.raises(RewindPlaceUnknown) as refused:
        worked.rewind(to_seq)
    assert (refused.value.to_seq, refused.value.head_seq) == (to_seq, 1)
    assert dump(worked.warehouse) == before


@pytest.mark.parametrize(
    ("lose", "not_held"),
    [
        (lambda desk: desk.log_starts.update({FIRST: 5}), (Span(*FIRST, 4, 5),)),
        (lambda desk: setattr(desk, "topic_id", "id-2"), (FIRST, SECOND)),
        (lambda desk: desk.ends.pop(SECOND), (SECOND,)),
    ],
)
def test_a_rewind_checks_that_kafka_holds_everything_before_anyone_is_fenced(
    worked: Desk, lose: Callable[[Desk], object], not_held: tuple[TopicPartition | Span, ...]
) -> None:
    """H2."""
    lose(worked)
    before, kafka = dump(worked.warehouse), dict(worked.group.offsets)
    with pytest.raises(RewindNotReadable) as refused:
        worked.rewind(1)
    assert refused.value.not_held == not_held
    assert dump(worked.warehouse) == before
    assert worked.group.offsets == kafka


def test_a_rewind_removes_only_what_was_looked_at(worked: Desk) -> None:
    """Another run came between the look and the lock: it says so instead of taking more back."""
    facts, epoch = worked.facts, worked.epoch
    worked.work(worked.open("another", Bounds(4)).epoch)
    before = dump(worked.warehouse)
    request = RewindRequest("test", "a test", 1, facts, epoch, worked.tables)
    with pytest.raises(LookedTooEarly) as late:
        rewind(worked.ledger, worked.group, worked.published_rows, worked.region, request)
    assert (late.value.epoch, late.value.now_at) == (epoch, epoch + 1)
    assert dump(worked.warehouse) == before


def test_a_rewind_of_a_topic_that_the_newest_run_left_is_refused_under_the_lock(
    worked: Desk,
) -> None:
    """B4: whatever was looked at, and whatever the file names by now."""
    facts = replace(worked.facts, ends={}, topic_ids={}, unsubscribed=frozenset({TOPIC}))
    opened = OpenRequest("left", Bounds(8), facts, worked.epoch, worked.tables)
    settle(worked.ledger, worked.group, worked.region, opened)
    before = dump(worked.warehouse)
    with pytest.raises(RewindOfLeftTopics) as refused:
        worked.rewind(1)
    assert refused.value.left == {Span(*FIRST, 4, 12): 6, Span(*SECOND, 4, 12): 6}
    assert dump(worked.warehouse) == before
    worked.rewind(1, overrides=(ACCEPT_DATA_LOSS,))
    assert worked.rows() == worked.expected_rows()


def test_a_rewind_of_another_table_is_refused_under_the_lock(worked: Desk) -> None:
    """B4: whatever was looked at, and whoever looked."""
    before = dump(worked.warehouse)
    tables = {ONLY: "public.elsewhere"}
    request = RewindRequest("test", "a test", 1, worked.facts, worked.epoch, tables)
    with pytest.raises(TargetsChanged) as refused:
        rewind(worked.ledger, worked.group, worked.published_rows, worked.region, request)
    assert refused.value.given == tables
    assert dump(worked.warehouse) == before


def test_a_rewind_leaves_alone_what_does_not_move_though_kafka_has_lost_it(worked: Desk) -> None:
    head = worked.ledger.region_state(worked.region)
    assert head is not None
    worked.ends.pop(SECOND)
    worked.rewind(head.head_seq)
    assert worked.rows() == worked.expected_rows()


def test_a_request_that_is_done_is_not_done_again(worked: Desk) -> None:
    """B11: a DAG run that is cleared long after would remove what was published since."""
    worked.rewind(1, request_id=MONDAY)
    worked.work(worked.open("after").epoch)
    before = dump(worked.warehouse)
    with pytest.raises(AlreadyReset) as refused:
        worked.rewind(1, request_id=MONDAY)
    done = refused.value.finished
    assert (refused.value.request_id, done.from_seq, done.to_seq) == (MONDAY, 3, 1)
    with pytest.raises(AlreadyReset):
        worked.reset(request_id=MONDAY)
    assert dump(worked.warehouse) == before
    worked.rewind(1, request_id="flights_reset/tuesday")
    stands_at(worked, 4)


def test_a_request_that_died_before_it_was_done_is_done_by_its_retry(worked: Desk) -> None:
    with failpoint("rewind.removed"), pytest.raises(FailpointHit):
        worked.rewind(1, request_id=MONDAY)
    worked.rewind(1, request_id=MONDAY)
    stands_at(worked, 4)


def test_removing_rows_may_take_longer_than_other_statements(worked: Desk) -> None:
    """The statement that removes them tells its own time-out."""
    told = f"public.told_{worked.region}"
    worked.sql(f"CREATE TABLE {told} (of_removal interval)")
    worked.sql(
        f"CREATE FUNCTION {told}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO {told}"
        " VALUES (current_setting('statement_timeout')::interval); RETURN NULL; END $$"
    )
    worked.sql(f"CREATE TRIGGER told BEFORE DELETE ON {worked.target} EXECUTE FUNCTION {told}()")
    worked.rewind(1)
    [(of_removal,)] = worked.sql(f"SELECT of_removal FROM {told}")
    assert of_removal > timedelta(milliseconds=TIMEOUTS_MS["statement_timeout"])


def test_kafka_goes_down_before_the_ledger(worked: Desk) -> None:
    """H9b: a rewind that dies between the two leaves Kafka behind, never ahead."""
    with failpoint("rewind.removed"), pytest.raises(FailpointHit):
        worked.rewind(1)
    assert set(worked.group.offsets.values()) == {4}
    assert set(worked.offsets().values()) == {12}
    assert worked.rows() == worked.expected_rows()
    worked.open("after")
    stands_at(worked, 12)
    states = f"SELECT state FROM tidemark.resets WHERE {worked.here}"
    assert worked.sql(states) == [("superseded",)]


def test_a_rewind_that_is_overtaken_between_its_transactions_changes_nothing(worked: Desk) -> None:
    with meanwhile("reset.after", lambda: worked.open("newer")), pytest.raises(Superseded):
        worked.rewind(1)
    stands_at(worked, 12)


@pytest.mark.parametrize("point", ["mirror.fenced", "mirror.read", "mirror.after"])
def test_a_rewind_that_is_overtaken_in_its_mirror_is_superseded(worked: Desk, point: str) -> None:
    with meanwhile(point, lambda: worked.open("newer")), pytest.raises(Superseded):
        worked.rewind(1)
    stands_at(worked, 12)


def test_of_two_rewinds_one_wins_and_the_other_is_superseded(worked: Desk) -> None:
    with meanwhile("reset.after", lambda: worked.rewind(1)), pytest.raises(Superseded):
        worked.rewind(2)
    stands_at(worked, 4)
    states = f"SELECT to_seq, state FROM tidemark.resets WHERE {worked.here} ORDER BY epoch"
    assert worked.sql(states) == [(2, "superseded"), (1, "finished")]


def test_a_member_that_staged_before_the_rewind_is_fenced(worked: Desk) -> None:
    epoch = worked.open("third", Bounds(4)).epoch
    batch = worked.must_plan(epoch)
    contribution = worked.stage(batch, worked.join(epoch))
    worked.rewind(2)
    with pytest.raises(Fenced):
        worked.publish(batch, contribution)
    stands_at(worked, 8)


def test_a_target_that_keeps_its_rows_refuses_the_rewind(worked: Desk) -> None:
    """A table that refers to them; nothing is removed, and the next open lifts Kafka again."""
    worked.sql(f"ALTER TABLE {worked.target} ADD UNIQUE (kafka_partition, kafka_offset)")
    worked.sql(
        f"CREATE TABLE public.ref_{worked.region} (p int, o bigint, FOREIGN KEY (p, o)"
        f" REFERENCES {worked.target} (kafka_partition, kafka_offset))"
    )
    worked.sql(f"INSERT INTO public.ref_{worked.region} VALUES (0, 8)")
    with pytest.raises(TargetRefused):
        worked.rewind(1)
    worked.open("after")
    stands_at(worked, 12)


def test_the_audit_row_says_what_was_removed(worked: Desk) -> None:
    rows = [row for row in worked.rows() if row[1] >= 4]
    dead_letters = [dead_letter for dead_letter in worked.dead_letters() if dead_letter[1] >= 4]
    worked.rewind(1)
    audit = (
        "SELECT requested_by, why, from_seq, to_seq, rows_removed, dead_letters_removed, state"
        f" FROM tidemark.resets WHERE {worked.here}"
    )
    expected = ("test", "a test", 3, 1, len(rows), len(dead_letters), "finished")
    assert worked.sql(audit) == [expected]


def test_a_rewind_past_a_history_that_ended_is_refused(worked: Desk) -> None:
    """Rows of a topic that was created again can't be read again."""
    worked.topic_id = "id-2"
    worked.open("told", overrides=("accept_data_loss",))
    with pytest.raises(RewindNotReadable) as refused:
        worked.rewind(1)
    assert str(FIRST) in refused.value.ended


def test_the_plan_of_a_rewind_counts_what_it_would_remove(worked: Desk) -> None:
    plan = worked.ledger.rewind_plan(worked.region, 1)
    assert (plan.batches, plan.offsets) == (2, {FIRST: 4, SECOND: 4})
    assert plan.dead_letters == sum(offset >= 4 for _, offset in worked.dead_letters())
    assert plan.margins(replace(worked.facts, log_starts={FIRST: 3, SECOND: 0})) == {
        FIRST: 1,
        SECOND: 4,
    }


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [((12, 12), 3), ((11, 12), 2), ((8, 8), 2), ((8, 5), 1), ((3, 12), 0), ((99, 99), 3)],
)
def test_a_time_means_the_newest_checkpoint_at_or_below_its_offsets(
    worked: Desk, offsets: tuple[int, int], expected: int
) -> None:
    at = dict(zip((FIRST, SECOND), offsets, strict=True))
    assert worked.ledger.checkpoint_before(worked.region, at) == expected


@pytest.mark.parametrize(("offset", "expected"), [(10, 5), (6, 4), (5, 4), (3, 3), (0, 3)])
def test_a_time_names_no_offsets_of_a_history_that_ended(
    worked: Desk, offset: int, expected: int
) -> None:
    """The old log was longer than the new one is: its spans end above every offset asked for."""
    worked.topic_id = "id-2"
    worked.ends = {FIRST: 5, SECOND: 5}
    worked.work(worked.open("told", overrides=("accept_data_loss",)).epoch)
    worked.grow(5, 0)
    worked.grow(5, 1)
    worked.work(worked.open("after").epoch)
    at = {FIRST: offset, SECOND: offset}
    assert worked.ledger.checkpoint_before(worked.region, at) == expected
