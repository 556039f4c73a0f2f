"""B16: what the broker's disk has spoilt is an error with its range, never skipped in silence."""

from collections.abc import Callable

import pytest
from tests.support.damage import (
    BATCHES,
    CRAFTED,
    DEADLY,
    HEADER,
    RECORDS,
    StoredBatch,
    fill,
    stored_batches,
)
from tests.support.desk import TOPIC, Desk, is_good
from tests.support.failpoint import failpoint
from tests.support.reading import read_apart
from tests.support.world import World

from tidemark.errors import JobFailed
from tidemark.failpoints import FailpointHit
from tidemark.kafka._corrupt import DIED, UNTOLD
from tidemark.kafka.errors import BatchUnreadable, CorruptRange, RangeNotLeftOut
from tidemark.kafka.locate import located, locating, probing
from tidemark.kafka.spans import read_spans
from tidemark.ledger.queries import LedgerQueries
from tidemark.model.errors import AcceptedRangeNotDue, AcceptedTextHasNoRange
from tidemark.model.offsets import Span, TopicPartition
from tidemark.model.overrides import ACCEPT_CORRUPT
from tidemark.model.plan import Bounds
from tidemark.protocol.errors import RewindNotReadable
from tidemark.verify.verify import verify
from tidemark_local.stack import LocalStack

Topic = Callable[..., str]


@pytest.fixture
def world(world: World) -> World:
    """Its records are taken as they come: what is damaged may hold any bytes."""
    world.settings = {"decode": {"format": "raw", "schema": {}}}
    return world


def read(kafka: str, span: Span) -> tuple[list[int], CorruptRange]:
    """The offsets that came, and the error that ended the read, with its range."""
    offsets, error = read_apart(kafka, span)
    assert error
    with pytest.raises(CorruptRange) as caught, located({"bootstrap.servers": kafka}):
        raise error
    return offsets, caught.value


LAYOUTS = {
    "short values, checksum": ("none", b"v", 2, HEADER["checksum"]),
    "values, attributes": ("none", b"v" * 100, 1, HEADER["attributes"]),
    "values, number of records": ("none", b"v" * 100, 1, HEADER["records"] + 3),
    "values, payload, first batch": ("none", b"v" * 100, 0, 300),
    "large values, payload": ("none", b"v" * 20_000, 2, 70_000),
    "gzip, last batch": ("gzip", b"v" * 100, 3, -3),
    "a payload like batches": ("none", CRAFTED, 2, HEADER["checksum"]),
}
MORE_LAYOUTS = {
    "short values, payload": ("none", b"v", 2, -3),
    "short values, first batch": ("none", b"v", 0, -3),
    "short values, last batch": ("none", b"v", 3, -3),
    "values, checksum": ("none", b"v" * 100, 1, HEADER["checksum"]),
    "values, payload, last batch": ("none", b"v" * 100, 3, 300),
    "large values, last byte": ("none", b"v" * 20_000, 0, -1),
    "snappy": ("snappy", b"v" * 100, 2, -3),
    "lz4": ("lz4", b"v" * 100, 2, -3),
    "zstd": ("zstd", b"v" * 100, 2, -3),
}


@pytest.mark.parametrize(
    "layout", [*LAYOUTS, *(pytest.param(one, marks=pytest.mark.long) for one in MORE_LAYOUTS)]
)
def test_a_corrupt_batch_ends_the_read_with_its_range(
    stack: LocalStack, kafka: str, topic: Topic, layout: str
) -> None:
    """B16: all before it comes, nothing of it, nothing after it; behind it all can be read."""
    codec, value, number, byte = (LAYOUTS | MORE_LAYOUTS)[layout]
    name, end = topic(), BATCHES * RECORDS
    fill(kafka, name, codec, value)
    bad = stored_batches(stack, name)[number]
    bad.flip(byte)
    found, error = read(kafka, Span(name, 0, 0, end))
    assert (found, error.span) == ([*range(bad.start)], Span(name, 0, bad.start, bad.end))
    assert behind(kafka, error.span, end) == [*range(bad.end, end)]


def behind(kafka: str, bad: Span, end: int) -> list[int]:
    """The offsets that can be read behind a corrupt range."""
    if bad.end == end:
        return []
    rest = Span(*bad.topic_partition, bad.end, end)
    lists = read_spans({"bootstrap.servers": kafka}, [rest])
    return [record.offset() for records in lists for record in records]


def test_a_read_that_begins_inside_a_corrupt_batch_names_the_rest_of_it(
    stack: LocalStack, kafka: str, topic: Topic
) -> None:
    name = topic()
    fill(kafka, name)
    stored_batches(stack, name)[1].flip(-3)
    found, error = read(kafka, Span(name, 0, 13, 40))
    assert (found, error.span) == ([], Span(name, 0, 13, 20))


def test_of_two_corrupt_batches_the_first_is_named(
    stack: LocalStack, kafka: str, topic: Topic
) -> None:
    """What lies between two of them can be read, and neighbours are two."""
    name = topic()
    fill(kafka, name)
    batches = stored_batches(stack, name)
    for number in (1, 2):
        batches[number].flip(-3)
    assert read(kafka, Span(name, 0, 0, 40))[1].span == Span(name, 0, 10, 20)
    batches[2].flip(-3)
    batches[3].flip(-3)
    assert read(kafka, Span(name, 0, 0, 40))[1].span == Span(name, 0, 10, 20)


@pytest.mark.long
@pytest.mark.parametrize(("byte", "at"), [(0, 20), (7, 31)])
def test_offsets_that_cannot_be_are_corrupt(
    stack: LocalStack, kafka: str, topic: Topic, byte: int, at: int
) -> None:
    """A batch's first offset has no checksum: here it lies past the log's end, or one too high."""
    name = topic()
    fill(kafka, name)
    stored_batches(stack, name)[2].flip(byte)
    _, error = read(kafka, Span(name, 0, 0, 40))
    assert error.span == Span(name, 0, at, at + 1)


@pytest.mark.long
def test_a_corrupt_batch_that_kills_the_client_can_be_left_out(
    world: World, stack: LocalStack
) -> None:
    """B16: the client's own assertion fails. Only the process that looks dies, and open goes on."""
    fill(world.kafka, world.topic, value=DEADLY)
    bad = stored_batches(stack, world.topic)[2]
    bad.flip(HEADER["checksum"])
    with probing({"bootstrap.servers": world.kafka}, world.partition()) as met_at:
        assert (met_at(20), met_at(30)) == (DIED, None)
    accept(world, Span(world.topic, 0, bad.start, bad.end))
    world.open("told")
    assert world.sql("SELECT backlog FROM tidemark.runs") == [(40 - 10,)]


def of_dead_worker(*spans: Span) -> JobFailed:
    """The error of a job whose worker died without a word."""
    error = JobFailed()
    error.is_of_dead_worker, error.spans = True, spans
    return error


@pytest.mark.long
@pytest.mark.parametrize(
    ("start", "end", "found"),
    [(10, 20, (20, 30)), (25, 40, (25, 30)), (30, 40, None)],
    ids=["right before it", "from within it", "behind it"],
)
def test_what_a_worker_died_of_is_looked_for(
    stack: LocalStack, kafka: str, topic: Topic, start: int, end: int, found: tuple[int, int] | None
) -> None:
    """B16: a client that reads ahead dies of the next batch as well; else the error stands."""
    name = topic()
    fill(kafka, name, value=DEADLY)
    stored_batches(stack, name)[2].flip(HEADER["checksum"])
    error = of_dead_worker(Span(name, 0, start, end))
    with (
        pytest.raises((CorruptRange, JobFailed)) as caught,
        located({"bootstrap.servers": kafka}),
    ):
        raise error
    if found is None:
        assert caught.value is error
    else:
        assert isinstance(caught.value, CorruptRange)
        assert caught.value.span == Span(name, 0, *found)
        assert caught.value.__cause__ is error


def test_a_look_that_fails_hides_no_error(kafka: str) -> None:
    error = of_dead_worker(Span("no-such-topic", 0, 0, 1))
    with pytest.raises(JobFailed) as caught, located({"bootstrap.servers": kafka}):
        raise error
    assert caught.value is error


def test_looks_end_with_their_time(stack: LocalStack, kafka: str, topic: Topic) -> None:
    """What was not met in time is not called deadly."""
    name = topic()
    fill(kafka, name, value=DEADLY)
    stored_batches(stack, name)[2].flip(HEADER["checksum"])
    span = Span(name, 0, 20, 30)
    with locating({"bootstrap.servers": kafka}) as look:
        assert look(span) == (20, DIED)
    with locating({"bootstrap.servers": kafka}, seconds=0) as look:
        assert look(span) == (20, UNTOLD)
    with locating({"bootstrap.servers": kafka, "no.such.key": "1"}) as look:
        assert look(span) == (20, UNTOLD)


@pytest.mark.parametrize("is_of_dead_worker", [True, False])
def test_only_a_dead_worker_makes_a_member_look(
    world: World, stack: LocalStack, is_of_dead_worker: bool
) -> None:
    """B16: any other failed job is told as it was, though something is corrupt."""

    def dies(executor: object, batch: object, spans: object) -> None:
        error = JobFailed()
        error.is_of_dead_worker = is_of_dead_worker
        raise error

    fill(world.kafka, world.topic)
    spoilt(world, stack, 2)
    world.before = dies
    world.open()
    with pytest.raises(CorruptRange if is_of_dead_worker else JobFailed) as caught:
        world.drain()
    if isinstance(caught.value, CorruptRange):
        assert caught.value.span == Span(world.topic, 0, 20, 30)


def spoilt(world: World, stack: LocalStack, number: int) -> StoredBatch:
    """A batch of the world's topic, corrupt now."""
    bad = stored_batches(stack, world.topic)[number]
    bad.flip(-3)
    return bad


def accept(world: World, *ranges: object) -> None:
    world.overrides = tuple(f"{ACCEPT_CORRUPT} {one}" for one in ranges)


def test_a_person_leaves_out_exactly_the_corrupt_batch(world: World, stack: LocalStack) -> None:
    """B7: the same run publishes what lies before and after it; ledger and verify tell of it."""
    fill(world.kafka, world.topic)
    world.run("first", max_records=7, max_batches=1)
    bad = spoilt(world, stack, 2)
    world.open("second")
    with pytest.raises(CorruptRange) as met:
        world.drain("second")
    assert met.value.span == Span(world.topic, 0, 20, 30)
    assert isinstance(met.value.__cause__, BatchUnreadable)
    world.reset("second")
    accept(world, Span(world.topic, 0, bad.start, bad.end))
    closed = world.run("told")
    assert (closed.rows, world.rows()) == (23, [(0, n) for n in (*range(20), *range(30, 40))])
    assert world.kafka_offsets()[world.partition()] == 40
    left_out = f"{Span(world.topic, 0, 20, 30)}"
    (remarks,) = world.sql("SELECT remarks FROM tidemark.runs WHERE run_id = 'told'")
    assert remarks == ([f"accepted: {left_out} is corrupt in Kafka and was left out"],)
    report = verify(world.pipeline, world.connections, executor_of=world.executor_of)
    assert (report.wrong, report.unverifiable) == (0, 0)
    assert [note for note in report.notes if left_out in note and "accepted its loss" in note]
    with pytest.raises(AcceptedRangeNotDue) as refused:
        world.open("again")
    assert (refused.value.next_offset, refused.value.end) == (40, 40)


def test_a_range_that_nobody_came_to_goes_to_the_next_open_of_the_run(
    world: World, stack: LocalStack
) -> None:
    """B11, G88: an open whose mirror fails is tried again by itself, and has used up nothing."""
    fill(world.kafka, world.topic)
    bad, other = spoilt(world, stack, 1), spoilt(world, stack, 3)
    ranges = [Span(world.topic, 0, one.start, one.end) for one in (bad, other)]
    accept(world, ", ".join(map(str, ranges)))
    with failpoint("mirror.before"), pytest.raises(FailpointHit):
        world.open("told")
    assert world.open("told").remarks == ()
    closed = world.run("told", max_records=10, max_batches=1)
    assert (closed.rows, world.ledger_offsets()[world.partition()]) == (10, 10)
    assert world.run("told").rows == 10
    left = {*range(10, 20), *range(30, 40)}
    assert world.rows() == [(0, n) for n in range(40) if n not in left]
    (remark,) = world.open("told").remarks
    assert f"{world.overrides[0]} was used up by epoch" in remark


def test_what_can_be_read_is_not_left_out(world: World, stack: LocalStack) -> None:
    """Each end of the range is tried: a person may have mistyped it, or Kafka has mended it."""
    fill(world.kafka, world.topic)
    bad = spoilt(world, stack, 1)
    spoilt(world, stack, 3)
    for start, end, *why in [(9, 20, 9, None), (10, 21, 20, None), (10, 40, None, 30)]:
        accept(world, Span(world.topic, 0, start, end))
        with pytest.raises(RangeNotLeftOut) as refused:
            world.open("told")
        assert [refused.value.readable, refused.value.second] == why
    accept(world, Span(world.topic, 0, 30, 41))
    with pytest.raises(AcceptedRangeNotDue):
        world.open("told")
    bad.flip(-3)
    accept(world, Span(world.topic, 0, 10, 20))
    with pytest.raises(RangeNotLeftOut) as refused:
        world.open("told")
    assert refused.value.readable == 10
    accept(world, "t[0]@10")
    with pytest.raises(AcceptedTextHasNoRange):
        world.open("told")


@pytest.mark.long
def test_a_batch_that_became_corrupt_after_it_was_published_is_not_verifiable(
    world: World, stack: LocalStack
) -> None:
    fill(world.kafka, world.topic)
    world.run()
    spoilt(world, stack, 1)
    report = verify(world.pipeline, world.connections, executor_of=world.executor_of)
    (proof,) = report.batches
    assert (proof.verdict, report.wrong) == ("not verifiable", 0)
    assert "@10 is corrupt" in proof.unverifiable[0]


PASSED = TopicPartition(TOPIC, 0)


def passed(desk: Desk, *ranges: tuple[int, int]) -> Desk:
    """Thirty offsets of one partition, read by one run without these ranges, in three batches."""
    desk.ends, desk.log_starts = {PASSED: 30}, {PASSED: 0}
    told = tuple(f"{ACCEPT_CORRUPT} {Span(*PASSED, *one)}" for one in ranges)
    epoch = desk.open("told", Bounds(10), told).epoch
    while desk.plan(epoch):
        desk.work(epoch)
    desk.close("told")
    left_out = {at for one in ranges for at in range(*one)}
    assert [at for _, at in desk.rows()] == [
        at for at in range(30) if is_good(at) and at not in left_out
    ]
    return desk


ONE = ((15, 20),)
TWO = ((5, 10), (15, 20))
NEIGHBOURS = ((15, 20), (20, 22))


@pytest.mark.parametrize("ranges", [ONE, TWO, NEIGHBOURS])
def test_what_lies_before_a_range_that_was_left_out_is_still_compared(
    desk: Desk, ranges: tuple[tuple[int, int], ...]
) -> None:
    """Its log is as it was; once the topic is created again it is another one."""
    looks = LedgerQueries(passed(desk, *ranges).engine)

    def ended() -> list[bool]:
        return [one.is_ended for n in (1, 2, 3) for one in looks.published_spans(desk.region, n)]

    assert (ended(), looks.broken_chains(desk.region)) == ([False] * 3, [])
    desk.topic_id = "id-2"
    desk.open("again", overrides=("accept_data_loss",))
    assert ended() == [True] * 3


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        (ONE, {5: 0, 10: 1, 12: 1, 15: 2, 17: 2, 29: 2, 30: 3}),
        (TWO, {4: 0, 5: 1, 7: 1, 12: 1, 15: 2, 17: 2, 30: 3}),
        (NEIGHBOURS, {5: 0, 12: 1, 17: 2, 21: 2, 29: 2, 30: 3}),
    ],
)
def test_a_time_before_a_range_that_was_left_out_means_the_checkpoint_of_then(
    desk: Desk, ranges: tuple[tuple[int, int], ...], expected: dict[int, int]
) -> None:
    passed(desk, *ranges)
    found = {at: desk.ledger.checkpoint_before(desk.region, {PASSED: at}) for at in expected}
    assert found == expected


@pytest.mark.parametrize(
    ("ranges", "expected"), [(ONE, [10, 20, 30]), (TWO, [10, 20, 30]), (NEIGHBOURS, [10, 22, 30])]
)
def test_a_checkpoint_does_not_pass_what_was_read_after_it_before_a_range(
    desk: Desk, ranges: tuple[tuple[int, int], ...], expected: list[int]
) -> None:
    """The first one stands before what the second has read; that one, behind the range itself."""
    ledger = passed(desk, *ranges).ledger
    found = [ledger.merged_checkpoint(desk.region, n).offsets[PASSED] for n in (1, 2, 3)]
    assert found == expected


SECOND = TopicPartition(TOPIC, 1)


@pytest.mark.parametrize(("ranges", "max_records"), [(TWO, 3), (NEIGHBOURS, 12)])
def test_two_members_share_batches_smaller_than_a_range_and_batches_that_it_cuts(
    desk: Desk, ranges: tuple[tuple[int, int], ...], max_records: int
) -> None:
    """B7: each reads one partition; whoever plans passes the range, once, and the other goes on."""
    desk.ends = {PASSED: 30, SECOND: 9}
    told = tuple(f"{ACCEPT_CORRUPT} {Span(*PASSED, *one)}" for one in ranges)
    epoch = desk.open("told", Bounds(max_records), told).epoch
    members = {tp: desk.join(epoch) for tp in desk.ends}
    left_out = {at for one in ranges for at in range(*one)}
    while batch := desk.plan(epoch):
        spans = [planned.span for planned in batch.spans]
        assert sum(span.width for span in spans) <= max_records
        for span in spans:
            assert desk.must_plan(epoch).seq == batch.seq
            member = members[span.topic_partition]
            desk.publish(batch, desk.stage(batch, member, spans=[span]))
    desk.close("told")
    good = {(0, at) for at in range(30) if at not in left_out} | {(1, at) for at in range(9)}
    assert desk.rows() == sorted(one for one in good if is_good(one[1]))
    assert desk.offsets() == desk.group.offsets == desk.ends
    run = desk.ledger.run_at(desk.region, epoch)
    assert run
    assert [*run.remarks] == [
        f"accepted: {Span(*PASSED, *one)} is corrupt in Kafka and was left out" for one in ranges
    ]


def test_a_bound_that_ends_a_run_before_a_range_leaves_it_for_the_next_one(desk: Desk) -> None:
    """Nothing is left out that the run did not come to; the next one has to be told again."""
    desk.ends, desk.log_starts = {PASSED: 30}, {PASSED: 0}
    told = (f"{ACCEPT_CORRUPT} {Span(*PASSED, 15, 20)}",)
    epoch = desk.open("first", Bounds(10, max_batches=2), told).epoch
    while desk.plan(epoch):
        desk.work(epoch)
    desk.close("first")
    run = desk.ledger.run_at(desk.region, epoch)
    assert run
    assert (desk.offsets(), run.remarks) == ({PASSED: 15}, [])
    desk.work(desk.open("second", overrides=told).epoch)
    assert [at for _, at in desk.rows()] == [
        at for at in (*range(15), *range(20, 30)) if is_good(at)
    ]


def test_no_rewind_goes_back_behind_a_range_that_was_left_out(desk: Desk) -> None:
    """To the range's end it goes, and what lay behind it is read again."""
    rows = passed(desk, *ONE).rows()
    for seq in (0, 1):
        with pytest.raises(RewindNotReadable) as refused:
            desk.rewind(seq)
        assert (refused.value.to_seq, refused.value.ended) == (seq, (str(PASSED),))
    desk.rewind(2)
    assert desk.offsets() == desk.group.offsets == {PASSED: 20}
    desk.work(desk.open("again").epoch)
    assert desk.rows() == rows
