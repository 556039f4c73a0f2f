"""One contract of ledger and target: what the model in tests/model stands on is not made up."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine
from tests.support.desk import Desk
from tests.support.fake_desk import FakeDesk

from tidemark.errors import Fenced, LedgerInconsistent, RunNotDone, StagingLost, TidemarkError
from tidemark.ledger.errors import EpochHasPassed
from tidemark.ledger.migrate import migrate
from tidemark.model.batch import ONLY, Batch, Contribution, Moved
from tidemark.model.offsets import Span
from tidemark.model.plan import BatchSize, Bounds, SizedBy
from tidemark.postgres.transaction import connect
from tidemark.protocol.errors import SpanAlreadyClaimed
from tidemark.protocol.publish import Outcome

Subject = Desk | FakeDesk
TWO = Bounds(4, in_flight=2)
STEPS = 80
SIZE = BatchSize(4, SizedBy.max_records, None)


@pytest.fixture(scope="module")
def engine(database: dict[str, Any]) -> Iterator[Engine]:
    """A ledger that the regions of this module share."""
    engine = connect(database)
    migrate(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def real(engine: Engine, database: dict[str, Any]) -> Desk:
    """A region in Postgres."""
    return Desk(engine, database)


@pytest.fixture(params=["fake", "postgres"])
def subject(request: pytest.FixtureRequest) -> Subject:
    """The fake, then the real one: a run with a backlog is open."""
    desk: Subject = FakeDesk() if request.param == "fake" else request.getfixturevalue("real")
    for partition in (0, 1):
        desk.grow(20, partition)
    desk.open("run", TWO)
    return desk


def two(desk: Subject) -> tuple[Batch, Batch]:
    """The two batches in flight."""
    desk.plan_next(desk.epoch)
    low, high = desk.plan_next(desk.epoch)
    return low, high


def moved(contribution: Contribution) -> Moved:
    """As many rows as were contributed."""
    return Moved(contribution.rows[ONLY])


def test_no_third_batch_is_planned(subject: Subject) -> None:
    _, high = two(subject)
    spans = tuple(_behind(p.span) for p in high.spans)
    with pytest.raises(Fenced), subject.ledger.deciding(subject.region, subject.epoch, "x") as tx:
        tx.write_batch(spans, SIZE)
    assert len(subject.plan_next(subject.epoch)) == 2


def test_no_span_is_planned_twice(subject: Subject) -> None:
    [low] = subject.plan_next(subject.epoch)
    spans = tuple(p.span for p in low.spans)
    with (
        pytest.raises(LedgerInconsistent),
        subject.ledger.deciding(subject.region, subject.epoch, "x") as tx,
    ):
        tx.write_batch(spans, SIZE)


def test_an_older_epoch_decides_nothing(subject: Subject) -> None:
    older = subject.ledger.deciding(subject.region, subject.epoch - 1, "x")
    with pytest.raises(EpochHasPassed) as passed, older:
        pass
    assert (passed.value.epoch, passed.value.found) == (subject.epoch - 1, subject.epoch)


def test_a_span_is_claimed_once_and_a_contribution_as_a_whole(subject: Subject) -> None:
    low, _ = two(subject)
    first, second = (p.span for p in low.spans)
    one = subject.stage(low, subject.join(subject.epoch), 1, [first])
    both = subject.stage(low, subject.join(subject.epoch), 2, [first, second])
    with subject.ledger.deciding(subject.region, subject.epoch, "x") as tx:
        tx.claim(low, one)
    with (
        pytest.raises(SpanAlreadyClaimed),
        subject.ledger.deciding(subject.region, subject.epoch, "x") as tx,
    ):
        tx.claim(low, both)
    [found, _] = subject.ledger.unpublished_batches(subject.region)
    assert [p.span for p in found.unclaimed] == [second]


def test_a_partition_moves_only_from_where_its_span_begins(subject: Subject) -> None:
    low, high = two(subject)
    with subject.ledger.deciding(subject.region, subject.epoch, "x") as tx:
        for batch in (low, high):
            tx.claim(batch, subject.stage(batch, subject.join(subject.epoch)))
    with pytest.raises(Fenced), subject.ledger.deciding(subject.region, subject.epoch, "x") as tx:
        tx.advance_partitions(high)


def test_a_batch_is_published_whole_and_with_its_rows(subject: Subject) -> None:
    low, _ = two(subject)
    first, second = (p.span for p in low.spans)
    parts = [subject.stage(low, subject.join(subject.epoch), n, [s])
             for n, s in enumerate((first, second))]  # fmt: skip
    rows = Moved(sum(part.rows[ONLY] for part in parts))
    dead_letters = sum(part.dead_letters for part in parts)
    for part, given, error in (
        (parts[0], moved(parts[0]), LedgerInconsistent),
        (parts[1], Moved(rows.rows - 1), StagingLost),
    ):
        with subject.ledger.deciding(subject.region, subject.epoch, "x") as tx:
            tx.claim(low, part)
        here = subject.region, subject.epoch
        with pytest.raises(error), subject.ledger.deciding(*here, "x") as tx:
            tx.publish_batch(
                low, {ONLY: given}, dead_letters if part is parts[1] else part.dead_letters
            )
    with subject.ledger.deciding(subject.region, subject.epoch, "x") as tx:
        assert tx.is_due(low)
        tx.publish_batch(low, {ONLY: rows}, dead_letters)


def test_the_head_moves_on_in_order(subject: Subject) -> None:
    low, high = two(subject)
    with subject.ledger.deciding(subject.region, subject.epoch, "x") as tx:
        assert not tx.is_due(low)
        contributions = [subject.stage(one, subject.join(subject.epoch)) for one in (low, high)]
        for batch, contribution in zip((low, high), contributions, strict=True):
            tx.claim(batch, contribution)
        assert [tx.is_due(batch) for batch in (low, high)] == [True, False]
        for batch, contribution in zip((low, high), contributions, strict=True):
            tx.publish_batch(batch, {ONLY: moved(contribution)}, contribution.dead_letters)
        assert [tx.advance_head(batch) for batch in (high, low, high)] == [0, 1, 1]


def test_what_became_of_a_contribution(subject: Subject) -> None:
    """Of this one: the member may have contributed another before."""
    low, _ = two(subject)
    member = subject.join(subject.epoch)
    parts = [subject.stage(low, member, n, [p.span]) for n, p in enumerate(low.spans)]

    def found() -> list[str | None]:
        return [subject.ledger.outcome(low, part) for part in parts]

    assert found() == ["planned", "planned"]
    subject.publish(low, parts[0])
    assert found() == ["contributed", "planned"]
    subject.publish(low, parts[1])
    assert found() == ["published", "published"]
    [batch, *_] = subject.plan_next(subject.epoch)
    parts = [subject.stage(batch, member, 9)]
    low = batch
    subject.reset()
    assert found() == [None]


@pytest.mark.parametrize(
    "seed", [4, 15, *(pytest.param(one, marks=pytest.mark.long) for one in (8, 10, 33))]
)
def test_both_ledgers_go_the_same_way(real: Desk, seed: int) -> None:
    """B18: whatever happens, they say the same and look the same; some of these lose claims."""
    walks = [Walk(desk, seed) for desk in (FakeDesk(), real)]
    for _ in range(STEPS):
        said = [walk.step() for walk in walks]
        assert said[0] == said[1]
        assert walks[0].seen() == walks[1].seen()
    for walk in walks:
        assert walk.desk.rows() == walk.desk.expected_rows()


class Walk:
    """Members, zombies, crashes of Postgres and resets of one region, one after another."""

    def __init__(self, desk: Subject, seed: int) -> None:
        self.desk = desk
        self._random = random.Random(seed)
        self._members: list[tuple[int, int]] = []
        """Epoch and number."""
        self._staged: list[tuple[Batch, Contribution]] = []
        self._steps: list[Callable[[], Any]] = [
            *[self._plan_and_stage] * 8,
            *[self._contribute] * 8,
            *[self._publish] * 3,
            self._join,
            self._close,
            self._lose,
            self._settle,
        ]
        for partition in (0, 1):
            desk.grow(99, partition)
        self._open()

    def step(self) -> Any:
        """One step; what was said of it."""
        step = self._random.choice(self._steps)
        try:
            said = step()
        except TidemarkError as error:
            said = error.code
        return step.__name__, said

    def seen(self) -> tuple[Any, ...]:
        """What the ledger shows, whatever its topic is called."""
        region = self.desk.region
        head = self.desk.ledger.merged_checkpoint(region)
        return (
            *(head.epoch, head.seq),
            sorted((one.partition, offset) for one, offset in head.offsets.items()),
            [_shown(batch) for batch in self.desk.ledger.unpublished_batches(region)],
        )

    def _open(self) -> int:
        bounds = Bounds(self._random.randint(1, 8), in_flight=self._random.choice((1, 2, 2)))
        self._run = f"run {self.desk.epoch}"
        found = self.desk.open(self._run, bounds)
        self._join()
        return found.epoch

    def _settle(self) -> Any:
        if self._random.random() < 0.3:
            self.desk.reset()  # batches are small after it, and one is in flight
        return self._open()

    def _member(self) -> tuple[int, int]:
        """The newest, or now and then a zombie."""
        return self._random.choice([*self._members[-4:], *[self._members[-1]] * 12])

    def _join(self) -> None:
        self._members.append((self.desk.epoch, self.desk.join(self.desk.epoch)))

    def _plan_and_stage(self) -> Any:
        epoch, member = self._member()
        batches = self.desk.plan_next(epoch)
        for batch in self._random.sample(batches, min(1, len(batches))):
            spans = sorted(p.span for p in batch.spans)
            chosen = self._random.sample(spans, self._random.randint(1, len(spans)))
            staged = self.desk.stage(batch, member, len(self._staged), chosen)
            self._staged.append((batch, staged))
        return [_shown(batch) for batch in batches]

    def _contribute(self) -> Any:
        if self._staged:
            return _said(self.desk.publish(*self._random.choice(self._staged[-3:])))
        return None

    def _publish(self) -> Any:
        epoch, _ = self._member()
        return _said(self.desk.publish_complete(epoch))

    def _close(self) -> Any:
        try:
            return self.desk.close(self._run).batches
        except RunNotDone:
            return "not done"

    def _lose(self) -> None:
        if self._random.random() < 0.5:
            self.desk.lose_staging()


def _shown(batch: Batch) -> tuple[Any, ...]:
    spans = sorted((p.span.partition, p.span.start, p.span.end, p.claimed) for p in batch.spans)
    return batch.seq, batch.epoch, batch.size, batch.is_complete, spans


def _said(outcome: Outcome | None) -> Any:
    return outcome and (outcome.result, outcome.seq)


def _behind(span: Span) -> Span:
    return Span(*span.topic_partition, span.end, span.end + 1)
