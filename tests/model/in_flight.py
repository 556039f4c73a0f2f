"""Every order of events in a small world: two batches in flight, two members, their zombies.

Each step calls the library's own function (settle, plan_batch, next_step, contribute_and_publish,
publish_complete, close) on a ledger in memory, in the order of a member's own loop: it looks, plans
where nothing is planned, drains, plans the batch after that one, contributes. Between two steps of
one process everybody else may do all that they can, so that a process sleeps before every
transaction.

Partitions come and go at each look. The end of a run may not rest on that: each member's own one is
enough.

Not in it: the mirror (each settle writes it at once), rewinds, a second open beside an open, and
what happens inside a transaction, which Postgres keeps from others.
"""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import count
from typing import Any

from tests.model.calls import Calls
from tests.model.processes import Faults, Member, Part, Partitions, State, gone, put, spent
from tests.model.promises import broken_promise, is_done
from tests.support.fake_ledger import Asleep
from tests.support.fake_tables import TOPIC, Tables

from tidemark.errors import ClaimsLost, Fenced, OutcomeUnknown, StagingLost
from tidemark.model.batch import ONLY, Batch
from tidemark.model.offsets import TopicPartition
from tidemark.model.plan import Bounds
from tidemark.protocol.publish import Outcome, Result
from tidemark.runs._work import InHand, Otherwise, Work, next_step

Batches = tuple[Batch, ...]


class Wrong(Exception):
    """A promise is broken."""


Step = tuple[str, State, bool]
"""What happens, what comes of it, and whether no end may rest on it: a fault, or a rebalance."""


class World:
    """Two members, partitions that end there, and a ledger without some of its guards."""

    def __init__(
        self, ends: tuple[int, ...], bounds: Bounds, faults: Faults, without: Collection[str] = ()
    ) -> None:
        self.faults = faults
        self.calls = Calls(ends, bounds, without)
        whole = [TopicPartition(TOPIC, place) for place in range(len(ends))]
        self._assigned = [[frozenset({own}), frozenset(whole)] for own in whole]

    # --- what may happen ---

    def begin(self) -> State:
        """A run is open, and two members have joined it."""
        empty = self.calls.number(Tables((0,) * len(self.calls.ends)))
        return self._opened(State(empty, (), self.faults), None)

    def steps(self, state: State) -> Iterator[Step]:
        """All that may happen next; raises Wrong where a process is told what is not so."""
        for place, member in enumerate(state.members):
            name = f"member {member.number}"
            if member.looks:
                yield from self._look(state, place, name)
            if member.drains is not None and not member.hand:
                yield f"{name} stages", self._staged(state, place), False
            if member.hand == "prepare":
                yield from self._prepare(state, place, name)
            elif member.hand:
                yield from self._go_on(state, place, name)
            if state.faults.crash and (member.drains or member.hand):
                crashed = self._again(spent(state, "crash"), place)
                yield f"{name} crashes and is tried again", crashed, True
        yield from self._from_outside(state)

    def _from_outside(self, state: State) -> Iterator[Step]:
        tables, faults = self.calls.tables[state.tables], state.faults
        if faults.postgres and tables.staged:
            emptied = self.calls.number(tables._replace(staged=frozenset()))
            crashed = spent(state, "postgres")._replace(tables=emptied, is_emptied=True)
            yield "Postgres crashes", crashed, True
        if faults.reset:
            told, after = self.calls.call(state.tables, Calls.reset)
            _expect(told is None, f"a reset is told {told}")
            yield "reset", spent(state, "reset")._replace(tables=after), True
        is_due = state.is_broken or not tables.run or tables.run[0] != tables.epoch
        if is_due or faults.open:
            paid = state if is_due else spent(state, "open")
            at_work = [one for one in state.members if one.drains or one.hand]
            for zombie in (None, *([] if state.is_broken else at_work)):  # else too many states
                what = f"open, member {zombie.number} lives on" if zombie else "open"
                yield what, self._opened(paid, zombie), not is_due

    def _opened(self, state: State, zombie: Member | None) -> State:
        told, after = self.calls.call(state.tables, Calls.open)
        _expect(told is None, f"an open is told {told}")
        opened = state._replace(tables=after, members=(zombie,) if zombie else (), is_broken=False)
        for slot in range(len(self._assigned)):
            opened = self._joined(opened, slot, self.calls.tables[after].epoch)
        return opened

    def _joined(self, state: State, slot: int, epoch: int) -> State:
        """One more member; its number is the first of which nothing is left."""
        tables = self.calls.tables[state.tables]
        used = {member.number for member in state.members} | {s[1] for s in tables.staged}
        used |= {claim.member for batch in tables.planned for claim in batch.claims}
        fresh = Member(slot, next(n for n in count() if n not in used), epoch)
        return state._replace(members=tuple(sorted((*state.members, fresh))))

    def _look(self, state: State, place: int, name: str) -> Iterator[Step]:
        """A member looks at what is planned, plans where nothing is, and chooses."""
        member = state.members[place]
        batches, _ = self.calls.call(state.tables, Calls.planned, member.epoch)
        for owned in self._assigned[member.slot]:
            found = tuple(batch.seq for batch in batches), owned
            if member.memo != found:
                yield from self._looked(state, place, name, batches, owned)

    def _looked(
        self, state: State, place: int, name: str, batches: Batches, owned: Partitions
    ) -> Iterator[Step]:
        member = state.members[place]
        if _step(member, batches, owned) is not Otherwise.plan:
            yield self._chosen(state, place, name, batches, owned)
            return

        def choose(planned: State, found: Batches) -> Step:
            if found or member.hand:
                return self._chosen(planned, place, name, found, owned)
            _expect(is_done(self.calls.tables[planned.tables]), f"{name} is told that it is done")
            return f"{name} is done", gone(planned, place), False

        yield from self._plan(state, place, name, choose)

    def _prepare(self, state: State, place: int, name: str) -> Iterator[Step]:
        """Before it contributes, a member plans the batch after."""
        contributes = state.members[place]._replace(hand="contribute")

        def go_on(planned: State, _: Batches) -> Step:
            return f"{name} prepares", put(planned, place, contributes), False

        yield from self._plan(state, place, name, go_on)

    def _plan(
        self, state: State, place: int, name: str, go_on: Callable[[State, Batches], Step]
    ) -> Iterator[Step]:
        epoch = state.members[place].epoch
        for fate, paid in _fates(state, asleep=False):
            told, after = self.calls.call(state.tables, Calls.plan, epoch, fates=fate)
            then = paid._replace(tables=after)
            if told is OutcomeUnknown:
                yield f"{name} plans, COMMIT {fate[0]}", self._again(then, place), True
            elif isinstance(told, tuple):
                yield go_on(then, told)
            else:
                yield f"{name} is fenced", self._told(then, place, told), False

    def _chosen(
        self, state: State, place: int, name: str, batches: Batches, owned: Partitions
    ) -> Step:
        member = state.members[place]
        step = _step(member, batches, owned)
        if isinstance(step, Work):
            part = Part(step.batch.seq, step.batch.epoch, step.batch.size, step.spans)
            what, then = f"takes {', '.join(map(str, part.spans))}", member._replace(drains=part)
        elif step is Otherwise.publish:
            what, then = "finds a batch complete", member._replace(hand="publish")
        else:
            what, then = "waits", member
            if "memo" in self.calls.without and batches:
                then = member._replace(memo=(tuple(one.seq for one in batches), owned))
        is_rebalance = owned != self._assigned[member.slot][0]
        return f"{name} {what}", put(state, place, then), is_rebalance

    def _staged(self, state: State, place: int) -> State:
        """What a discarded batch is staged for, nobody can name any more."""
        member, tables = state.members[place], self.calls.tables[state.tables]
        part = member.drains
        assert part
        if any(one.seq == part.seq for one in tables.planned):
            [winner] = part.contribution(member.number).winners
            rows = {(part.seq, winner.member, winner.attempt, span) for span in part.spans}
            tables = tables._replace(staged=tables.staged | rows)
        given = member._replace(drains=None, hand="prepare", given=part)
        return put(state._replace(tables=self.calls.number(tables)), place, given)

    def _go_on(self, state: State, place: int, name: str) -> Iterator[Step]:
        """The next transaction of a member's publisher."""
        member = state.members[place]
        step = member.hand.removeprefix("ask ")
        asks, verb = step != member.hand, f"{step}{'es' if step == 'publish' else 's'}"
        for fate, paid in [(("earlier",), state)] if asks else _fates(state, asleep=True):
            call = partial(self.calls.call, state.tables, fates=fate)
            if step == "contribute":
                told, after = call(Calls.contribute, member.number, member.given)
            else:
                told, after = call(Calls.publish, member.epoch)
            then = paid._replace(tables=after)
            if told is Asleep:
                asking = member._replace(hand=f"ask {step}")
                yield f"{name} {verb}, COMMIT {fate[0]}", put(then, place, asking), True
            else:
                what = f"{name} {'asks' if asks else verb}: {_in_words(told)}"
                yield what, self._told(then, place, told), False

    def _told(self, state: State, place: int, told: Any) -> State:
        """The member goes on with what it is told, which must be so."""
        member, tables = state.members[place], self.calls.tables[state.tables]
        if told is None:
            return put(state, place, member._replace(hand="", given=None))
        if isinstance(told, Outcome):
            _expect(_is_so(tables, member, told), f"{_in_words(told)} is not so")
            return put(state, place, member._replace(hand="publish"))
        if told is Fenced and tables.epoch != member.epoch:
            return gone(state, place)
        is_lost = told in (StagingLost, ClaimsLost) and state.is_emptied
        _expect(is_lost, f"member {member.number} is told {told.__name__}")
        if told is StagingLost:
            return self._again(state, place)
        return gone(state._replace(is_broken=True), place)

    def _again(self, state: State, place: int) -> State:
        """Airflow tries the member again in its epoch."""
        old = state.members[place]
        return self._joined(gone(state, place), old.slot, old.epoch)

    # --- what must hold ---

    def is_done_in(self, state: State) -> bool:
        """The newest run holds the epoch, and is done."""
        tables = self.calls.tables[state.tables]
        return bool(tables.run and tables.run[0] == tables.epoch) and is_done(tables)

    def wrong(self, at: int) -> str:
        """What is wrong with these tables; nothing if all holds."""
        tables = self.calls.tables[at]
        if text := broken_promise(tables):
            return text
        is_closed, _ = self.calls.call(at, Calls.close)
        if tables.run and tables.run[0] == tables.epoch and is_closed != is_done(tables):
            return f"close says {is_closed}"
        return ""


def _step(member: Member, batches: Batches, owned: Partitions) -> Work | Otherwise:
    part = member.in_hand
    in_hand = InHand(part.batch, part.contribution(member.number)) if part else None
    return next_step(batches, owned, in_hand)


def _is_so(tables: Tables, member: Member, told: Outcome) -> bool:
    if told.result is Result.published:
        return any(one.seq == told.seq for one in tables.published)
    if told.result is Result.refused or not member.given:
        return True
    [winner] = member.given.contribution(member.number).winners
    own = (member.given.seq, winner.member, winner.attempt)
    claims = [(one.seq, *claim[:2]) for one in tables.planned for claim in one.claims]
    staged = sum(row[3].width for row in tables.staged if row[:3] == own)
    # Postgres may have crashed since a COMMIT whose answer was lost: then the claim stands alone.
    return own in claims and (staged == winner.rows[ONLY] or member.hand == "ask contribute")


def _fates(state: State, *, asleep: bool) -> Iterator[tuple[tuple[str, ...], State]]:
    yield (), state
    if state.faults.unanswered:
        paid = spent(state, "unanswered")
        for fate in ("sent", "lost"):
            yield ((fate, "asleep") if asleep else (fate,)), paid


def _expect(holds: bool, text: str) -> None:
    if not holds:
        raise Wrong(text)


def _in_words(told: Any) -> str:
    if told is None:
        return "nothing to publish"
    if isinstance(told, Outcome):
        return f"{told.result} {told.seq}" if told.seq else f"{told.result}"
    return str(told.__name__)
