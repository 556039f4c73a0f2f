"""The ledger as a state machine: members, zombies, crashes and resets in any order.

Real Postgres, real protocol, a made-up log and a fake group that the contract tests hold to the
real one. The first tier tries the same few runs each time, the other one 200 at random;
TIDEMARK_MODEL_SHRINK makes a failing one short, which takes minutes.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import Engine
from tests.support.desk import Desk, holds_nothing, is_bad
from tests.support.failpoint import failpoint
from tests.support.fakes import FakeWriter

from tidemark.errors import (
    ClaimsLost,
    Fenced,
    OutcomeUnknown,
    RunNotDone,
    StagingLost,
    Superseded,
    Unreachable,
    by_code,
)
from tidemark.failpoints import FailpointHit
from tidemark.ledger.migrate import migrate
from tidemark.model.batch import Batch, Contribution
from tidemark.model.offsets import Offsets, Span, TopicPartition
from tidemark.model.periods import Calendar, Every, Period
from tidemark.model.plan import Bounds
from tidemark.postgres.transaction import connect
from tidemark.protocol.mirror import mirror
from tidemark.protocol.publish import Result
from tidemark.runs.retire import prune, retire

SOME, MANY = 3, 200
SHRINK = "TIDEMARK_MODEL_SHRINK" in os.environ
STEPS = 40

PUBLISH_POINTS = [
    "publish.before",
    "publish.claimed",
    "publish.moved",
    "publish.commit.before",
    "publish.commit.lost",
    "publish.commit.sent",
    "publish.commit.after",
]
PLAN_POINTS = ["plan.before", "plan.inside", "plan.commit.before", "plan.commit.after"]
SETTLE_POINTS = ["before", "inside", "commit.before", "commit.lost", "commit.sent",
                 "commit.after", "decided"]  # fmt: skip
REWIND_POINTS = [
    *(f"reset.{point}" for point in SETTLE_POINTS),
    *("mirror.fenced", "mirror.read", "mirror.after"),
    *("rewind.removed", "rewind.commit.before", "rewind.commit.lost", "rewind.commit.sent"),
]
MIRROR_POINTS = ["mirror.before", "mirror.fenced", "mirror.read", "mirror.after"]
HOURS = Calendar(Every.hour, ZoneInfo("UTC"), lateness=timedelta(minutes=20))
LOOKED_UP = {"publish.commit.lost", "publish.commit.sent"}


def crashes(points: list[str]) -> st.SearchStrategy[str | None]:
    """No crash, as often as one at any of the points."""
    return st.none() | st.sampled_from(points)


def crashing(point: str | None) -> AbstractContextManager[None]:
    """The failpoint, if there is one."""
    return failpoint(point) if point else nullcontext()


@dataclass
class Member:
    """A driver process: what it believes, and what it has staged."""

    number: int
    epoch: int
    batch: Batch | None = None
    staged: list[tuple[Batch, Contribution]] = field(default_factory=list)
    attempts: int = 0


class LedgerMachine(RuleBasedStateMachine):
    """What may happen to one region."""

    engine: Engine
    warehouse: dict[str, Any]

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk(self.engine, self.warehouse)
        self.members: list[Member] = []
        self.writers: list[tuple[FakeWriter, int, Offsets]] = []
        self.runs: list[tuple[str, int]] = []
        self.epoch = 0
        self.next_seq = 1
        self.plans: dict[int, tuple[Span, ...]] = {}
        self.in_flight: dict[int, int] = {}
        self.lost: set[int] = set()
        self.emptied: list[tuple[Batch, Contribution]] = []
        self.offsets: Offsets = {}
        self.first: datetime | None = None
        self.sent: set[str] = set()
        self.known: dict[str, Period] = {}

    # --- the world ---

    @initialize(max_records=st.integers(1, 12), in_flight=st.integers(1, 2))
    def begin(self, max_records: int, in_flight: int) -> None:
        self.grow(20, 0)
        self.grow(20, 1)
        self._open(max_records, in_flight)

    @rule(count=st.integers(1, 9), partition=st.integers(0, 1))
    def grow(self, count: int, partition: int) -> None:
        self.desk.grow(count, partition)

    @rule(
        max_records=st.integers(1, 12),
        in_flight=st.integers(1, 2),
        meanwhile=st.integers(0, 3),
        crash=crashes(SETTLE_POINTS),
    )
    def open(self, max_records: int, in_flight: int, meanwhile: int, crash: str | None) -> None:
        with crashing(crash and f"open.{crash}"):
            try:
                self._open(max_records, in_flight, meanwhile)
            except (FailpointHit, Unreachable):
                self.runs += [run for run in self._runs_in_ledger() if run not in self.runs]

    @rule(crash=crashes(SETTLE_POINTS))
    def reset_by_hand(self, crash: str | None) -> None:
        with crashing(crash and f"reset.{crash}"), suppress(FailpointHit, Unreachable):
            self.desk.reset()

    @rule(data=st.data())
    def reset_for_a_run(self, data: st.DataObject) -> None:
        """The DAG's reset, possibly a late one."""
        run_id, epoch = data.draw(st.sampled_from(self.runs))
        before = self._epoch_now()
        if epoch == before:
            assert self.desk.reset(run_id, epoch).epoch == before + 1
        else:
            with pytest.raises(Superseded):
                self.desk.reset(run_id, epoch)
            assert self._epoch_now() == before

    @rule(data=st.data(), crash=crashes(REWIND_POINTS))
    def rewind(self, data: st.DataObject, crash: str | None) -> None:
        """To any checkpoint that is retained, or to the initial state."""
        to_seq = data.draw(st.sampled_from([0, *self._retained()]))
        expected = self._offsets_at(to_seq)
        with crashing(crash):
            try:
                self.desk.rewind(to_seq)
                assert self.desk.offsets() == expected == self.desk.group.offsets
            except (FailpointHit, Unreachable):
                assert self.desk.offsets() in (expected, self.offsets)
        if self._is_rewound():
            whole = self.desk.complete_at
            self.known = {
                key: one
                for key, one in self.known.items()
                if whole and one.end + HOURS.lateness <= whole
            }

    @rule(retain=st.integers(1, 4))
    def prune(self, retain: int) -> None:
        prune(self.desk.ledger, self.desk.region, self._epoch_now(), retain)

    @rule()
    def crash_of_postgres(self) -> None:
        """Recovery empties UNLOGGED tables."""
        self.desk.lose_staging()
        self.lost.update(self.desk.ledger.unpublished_seqs(self.desk.region))
        self.emptied += [staged for member in self.members for staged in member.staged]

    @rule()
    def retire(self) -> None:
        retire(self.engine, self.desk.region)

    # --- members, living and dead ---

    @rule()
    def join(self) -> None:
        """A member joins the newest run's epoch, whether it still holds or not."""
        epoch = self.runs[-1][1]
        self.members.append(Member(self.desk.join(epoch), epoch))

    @precondition(lambda self: self._is_open())
    @rule(data=st.data(), count=st.integers(1, 3))
    def join_and_stage(self, data: st.DataObject, count: int) -> None:
        """Members get as far as their contributions, side by side."""
        for _ in range(count):
            self.join()
            member = self.members[-1]
            planned = self.desk.plan_next(member.epoch)
            if planned:
                member.batch = data.draw(st.sampled_from(planned))
                self._stage(member, data)

    @precondition(lambda self: self.members)
    @rule(data=st.data(), crash=crashes(PLAN_POINTS))
    def plan(self, data: st.DataObject, crash: str | None) -> None:
        member = data.draw(st.sampled_from(self.members))
        current = member.epoch == self._epoch_now()
        with crashing(crash):
            try:
                planned = self.desk.plan_next(member.epoch)
                assert current
                for batch in planned:
                    self._plan_is_fixed(batch)
                member.batch = data.draw(st.sampled_from(planned)) if planned else None
            except Fenced:
                assert not current
            except FailpointHit:
                self.members.remove(member)

    @precondition(lambda self: any(m.batch for m in self.members))
    @rule(data=st.data())
    def stage(self, data: st.DataObject) -> None:
        """A zombie may stage too."""
        self._stage(data.draw(st.sampled_from([m for m in self.members if m.batch])), data)

    @precondition(lambda self: any(m.staged for m in self.members))
    @rule(data=st.data(), crash=crashes(PUBLISH_POINTS))
    def contribute(self, data: st.DataObject, crash: str | None) -> None:
        """What was staged is offered, once or again."""
        member = data.draw(st.sampled_from([m for m in self.members if m.staged]))
        contribution = data.draw(st.sampled_from(member.staged))
        with crashing(crash):
            try:
                self._contribute(*contribution)
            except FailpointHit:
                assert crash not in LOOKED_UP
                self.members.remove(member)

    @precondition(lambda self: self.members)
    @rule(data=st.data(), crash=crashes(PUBLISH_POINTS))
    def publish_complete(self, data: st.DataObject, crash: str | None) -> None:
        """Whoever looks at a complete lowest batch publishes it."""
        member = data.draw(st.sampled_from(self.members))
        seqs = self.desk.ledger.unpublished_seqs(self.desk.region)
        is_complete = bool(seqs) and not self._unclaimed(seqs[0])
        with crashing(crash):
            try:
                outcome = self.desk.publish_complete(member.epoch)
                assert (outcome is not None) == is_complete or crash in LOOKED_UP
            except Fenced:
                assert member.epoch != self._epoch_now()
            except ClaimsLost:
                assert seqs[0] in self.lost
            except (FailpointHit, OutcomeUnknown):
                self.members.remove(member)

    # --- mirrors ---

    @precondition(lambda self: self.members)
    @rule(data=st.data(), crash=crashes(MIRROR_POINTS))
    def mirror(self, data: st.DataObject, crash: str | None) -> None:
        member = data.draw(st.sampled_from(self.members))
        current = member.epoch == self._epoch_now()
        with crashing(crash):
            try:
                mirror(self.desk.ledger, self.desk.group, self.desk.region, member.epoch)
                assert current
                assert self.desk.group.offsets == self.desk.offsets()
            except Fenced:
                assert not current
            except FailpointHit:
                self.members.remove(member)

    @rule()
    def mirror_and_pause(self) -> None:
        """A mirror has read the ledger and stops before its commit."""
        with self.desk.group.writer() as writer:
            checkpoint = self.desk.ledger.merged_checkpoint(self.desk.region)
            self.writers.append((writer, checkpoint.epoch, checkpoint.offsets))

    @precondition(lambda self: self.writers)
    @rule(data=st.data())
    def let_a_paused_mirror_go(self, data: st.DataObject) -> None:
        paused = data.draw(st.sampled_from(self.writers))
        self.writers.remove(paused)
        writer, epoch, offsets = paused
        with suppress(Fenced):
            writer.commit(offsets, f"{self.desk.region}/{epoch}/?")

    @precondition(lambda self: self._runs_in_ledger())
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        run_id, epoch = data.draw(st.sampled_from(self._runs_in_ledger()))
        if epoch != self._epoch_now():
            with pytest.raises(Fenced):
                self.desk.close(run_id)
            return
        done = self._is_done(epoch)
        try:
            closed = self.desk.close(run_id)
            assert done
            assert self.desk.group.offsets == self.desk.offsets() == closed.checkpoint.offsets
            assert self.desk.complete_at == max(self.desk.asked)
        except RunNotDone:
            assert not done

    @precondition(lambda self: self._runs_in_ledger())
    @rule(data=st.data(), dies=st.booleans())
    def tell(self, data: st.DataObject, dies: bool) -> None:
        """A close tells of what is complete and nobody knows; if it dies, the next one does."""
        run_id, epoch = data.draw(st.sampled_from(self._runs_in_ledger()))
        if epoch != self._epoch_now():
            with pytest.raises(Fenced):
                self.desk.tell(epoch, HOURS)
            return
        whole, news = self.desk.complete_at, self.desk.tell(epoch, HOURS)
        told = list(news.periods) if news else []
        complete = [*HOURS.complete(self.first, whole)] if whole else []
        assert told == [one for one in complete if one.key not in self.known]
        if not news:
            return
        keys = {one.key for one in told}
        assert set(news.again) == keys & self.sent
        self.first = self.first or told[0].start
        self.sent |= keys
        if not dies:
            self.desk.confirm(run_id)
            self.known |= {one.key: one for one in told}

    # --- what must hold ---

    @invariant()
    def every_record_is_there_once(self) -> None:
        """Rows and dead letters are those of [initial, next), each exactly once."""
        assert self.desk.rows() == self.desk.expected_rows()
        dead_letters = [
            (p.partition, offset)
            for p, end in sorted(self.desk.offsets().items())
            for offset in range(end)
            if is_bad(offset)
        ]
        assert self.desk.dead_letters() == dead_letters

    @invariant()
    def complete_is_never_said_too_early(self) -> None:
        """All that was visible at that time is there; nor is it said of what a rewind removed."""
        if (complete_at := self.desk.complete_at) is None:
            return
        there = {*self.desk.rows(), *self.desk.dead_letters()}
        seen = self.desk.asked[complete_at].items()
        visible = {(p.partition, o) for p, end in seen for o in range(end) if not holds_nothing(o)}
        assert visible <= there

    @invariant()
    def published_spans_tile(self) -> None:
        """Each begins where the one before ends, from the initial offset to the next one."""
        spans = self.desk.sql(
            "SELECT partition, start_offset, end_offset FROM tidemark.spans s"
            " JOIN tidemark.batches b USING (region, seq)"
            f" WHERE s.{self.desk.here} AND live AND b.state = 'published' ORDER BY 1, 2"
        )
        stand = dict.fromkeys((p.partition for p in self.desk.offsets()), 0)
        pruned = set(stand) if self._oldest() else set()
        for partition, start, end in spans:
            assert start == stand[partition] or partition in pruned
            pruned.discard(partition)  # of what was pruned, only the newest boundary is left
            stand[partition] = end
        assert stand == {p.partition: o for p, o in self.desk.offsets().items()}

    @invariant()
    def kafka_is_never_ahead(self) -> None:
        offsets = self.desk.offsets()
        assert all(offset <= offsets[p] for p, offset in self.desk.group.offsets.items())

    @invariant()
    def epochs_and_seqs_only_grow(self) -> None:
        state = self.desk.ledger.region_state(self.desk.region)
        assert state is not None
        assert state.epoch >= self.epoch
        assert state.next_seq >= self.next_seq
        self.epoch, self.next_seq = state.epoch, state.next_seq

    @invariant()
    def remember_offsets(self) -> None:
        self.offsets = self.desk.offsets()

    @invariant()
    def no_more_batches_are_unpublished_than_in_flight(self) -> None:
        planned = self.desk.sql(
            "SELECT seq, epoch FROM tidemark.batches WHERE state = 'planned' AND " + self.desk.here
        )
        assert len(planned) <= self.in_flight.get(self._epoch_now(), 0)
        assert all(epoch == self._epoch_now() for _, epoch in planned)

    @invariant()
    def published_batches_follow_one_another(self) -> None:
        """Nobody ever sees a batch without the one before it."""
        chain = self.desk.sql(
            "SELECT seq, previous_seq FROM tidemark.batches WHERE state = 'published' AND "
            f"{self.desk.here} ORDER BY seq"
        )
        assert all(b[1] == a[0] for a, b in pairwise(chain))
        state = self.desk.ledger.region_state(self.desk.region)
        assert state is not None
        assert not chain or chain[-1][0] == state.head_seq

    # --- helpers ---

    def _oldest(self) -> int:
        state = self.desk.ledger.region_state(self.desk.region)
        return state.oldest_seq if state else 0

    def _retained(self) -> list[int]:
        """Checkpoints that a rewind may go back to."""
        rows = self.desk.sql(
            f"SELECT seq FROM tidemark.batches WHERE {self.desk.here} AND state = 'published'"
            " AND seq >= %s ORDER BY seq",
            (self._oldest(),),
        )
        return [seq for (seq,) in rows]

    def _offsets_at(self, seq: int) -> Offsets:
        """By the live spans up to there, counted here and not by the ledger's own query."""
        found = dict.fromkeys(self.desk.offsets(), 0)
        for topic, partition, end in self.desk.sql(
            "SELECT topic, partition, end_offset FROM tidemark.spans JOIN tidemark.batches b"
            f" USING (region, seq) WHERE {self.desk.here} AND live AND b.state = 'published'"
            " AND seq <= %s ORDER BY seq",
            (seq,),
        ):
            found[TopicPartition(topic, partition)] = end
        return found

    def _is_rewound(self) -> bool:
        """Whether the newest epoch is that of a rewind that took place."""
        done = "SELECT FROM tidemark.resets WHERE state = 'finished' AND kind = 'rewind'"
        return bool(self.desk.sql(f"{done} AND {self.desk.here} AND epoch = {self._epoch_now()}"))

    def _open(self, max_records: int, in_flight: int, meanwhile: int = 0) -> None:
        self.desk.ahead += timedelta(minutes=25)
        run_id, before = f"run {len(self.runs)} {self._epoch_now()}", self._epoch_now()
        self.in_flight[before + 1] = in_flight  # also if it crashes after its COMMIT
        bounds = Bounds(max_records, in_flight=in_flight)
        epoch = self.desk.open(run_id, bounds, meanwhile=lambda: self.grow(meanwhile, 0)).epoch
        self.runs.append((run_id, epoch))
        assert self.desk.group.offsets == self.desk.offsets()

    def _runs_in_ledger(self) -> list[tuple[str, int]]:
        here = f"SELECT run_id, epoch FROM tidemark.runs WHERE {self.desk.here} ORDER BY epoch"
        return self.desk.sql(here)

    def _epoch_now(self) -> int:
        return self.desk.ledger.epoch(self.desk.region) or 0

    def _plan_is_fixed(self, batch: Batch | None) -> None:
        """One seq means one plan, for ever."""
        if batch is not None:
            spans = tuple(p.span for p in batch.spans)
            assert self.plans.setdefault(batch.seq, spans) == spans

    def _is_open(self) -> bool:
        return self.runs[-1][1] == self._epoch_now()

    def _stage(self, member: Member, data: st.DataObject) -> None:
        """Some of the plan's spans; attempts are counted from 0 in every member."""
        assert member.batch is not None
        spans = [p.span for p in member.batch.spans]
        chosen = data.draw(st.lists(st.sampled_from(spans), min_size=1, unique=True))
        contribution = self.desk.stage(member.batch, member.number, member.attempts, chosen)
        member.attempts += 1
        member.staged.append((member.batch, contribution))

    def _contribute(self, batch: Batch, contribution: Contribution) -> None:
        expected = self._expected(batch, contribution)
        try:
            result: object = self.desk.publish(batch, contribution).result
        except (Fenced, StagingLost, ClaimsLost) as error:
            result = by_code()[error.code]
        assert result in expected, (result, expected)

    def _expected(self, batch: Batch, contribution: Contribution) -> set[object]:
        """What the ledger's own rows say must come of it."""
        if batch.epoch != self._epoch_now():
            return {Fenced}
        planned = self.desk.ledger.unpublished_seqs(self.desk.region)
        if batch.seq not in planned:
            return {Result.refused}
        unclaimed = self._unclaimed(batch.seq)
        wanted = [read.span for read in contribution.reads]
        in_plan = {p.span for p in batch.spans}
        if any(s.partition not in unclaimed or s not in in_plan for s in wanted):
            return {Result.refused}
        is_something = contribution.rows or contribution.dead_letters
        if is_something and (batch, contribution) in self.emptied:
            return {StagingLost}
        if batch.seq != planned[0] or unclaimed - {span.partition for span in wanted}:
            return {Result.contributed}
        has_claims = len(unclaimed) < len(in_plan)
        if has_claims and batch.seq in self.lost:
            return {Result.published, ClaimsLost}
        return {Result.published}

    def _unclaimed(self, seq: int) -> set[int]:
        """Partitions whose span of the batch nobody has claimed."""
        unclaimed = "SELECT partition FROM tidemark.spans WHERE contribution IS NULL AND seq = %s"
        found = self.desk.sql(f"{unclaimed} AND {self.desk.here}", (seq,))
        return {partition for (partition,) in found}

    def _is_done(self, epoch: int) -> bool:
        if self.desk.ledger.unpublished_seqs(self.desk.region):
            return False
        targets = self.desk.ledger.target_offsets(self.desk.region, epoch)
        offsets = self.desk.offsets()
        return all(offsets[p] >= target for p, target in targets.items())


@pytest.fixture
def machine(warehouse: dict[str, Any]) -> Iterator[type[LedgerMachine]]:
    """The machine on a database of this test's own; each example has a region of its own."""
    engine = connect(warehouse)
    migrate(engine)
    yield type("Machine", (LedgerMachine,), {"engine": engine, "warehouse": warehouse})
    engine.dispose()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "examples", [SOME, pytest.param(MANY, marks=pytest.mark.long)], ids=["some", "many"]
)
def test_nothing_is_lost_or_doubled_whatever_happens(
    machine: type[LedgerMachine], examples: int
) -> None:
    """B1, B18, B27: with one batch in flight and with two."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            derandomize=examples == SOME,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, *([Phase.shrink] if SHRINK else [])],
            database=None,
        ),
    )
