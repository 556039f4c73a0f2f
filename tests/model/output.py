"""The output topic in every order of events: what the mirror's Kafka transaction sends.

Two members mirror whenever they like, an open has to before its epoch may publish, a rewind changes
the ledger when its mirror was read back; so does a person who withholds a batch, and mirrors again.
Everybody sleeps before every step, and members outlive their epoch as zombies. What was sent is
judged by the library's own `look` and `begin`. One batch is one row.

Faults, each with a budget: a crash, or a commit without an answer; an open at any time; a rewind; a
batch that is withheld; a mirror by hand, under whatever epoch it finds; a ledger restored from a
backup; the group's offsets lost, or older ones found in their place; offsets that are readable
late. And a member may go on with the writer of its last mirror.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from tidemark.errors import Fenced, Refused
from tidemark.model.output import NOTHING_SENT, OutputHistory, Sent, SentSeqs, Topics
from tidemark.protocol.output import begin, find_sent


class Faults(NamedTuple):
    """How many of each may still happen."""

    crash: int = 0
    open: int = 0
    rewind: int = 0
    restore: int = 0
    expire: int = 0
    late: int = 0
    withhold: int = 0
    hand: int = 0
    older: int = 0
    keep: int = 0


class Mirror(NamedTuple):
    """Whoever mirrors: a member, or the administrator that opens, rewinds or withholds."""

    kind: str
    step: str = "idle"
    is_current: bool = True
    """It holds the region's epoch."""
    is_newest: bool = False
    """No writer was made after its own."""
    has_writer: bool = False
    """It keeps the writer of its last mirror; whether others were made since shows in a commit."""
    seqs: SentSeqs = SentSeqs()
    """What the ledger knew as sent, and as begun to be sent, before it looked."""
    sent: frozenset[Sent] = frozenset()
    """What it has read as sent."""
    todo: tuple[tuple[Sent, ...], Sent, int] | None = None
    """The batches, what is sent then, and the offset."""
    remembered: Sent | None = None
    to: int = 0
    """How many batches stay live, of a rewind; the seq that is withheld."""


class State(NamedTuple):
    """The ledger, the group's offset with its metadata, the topic, and who mirrors."""

    faults: Faults
    live: tuple[Sent, ...] = ()
    rewound: tuple[Sent, ...] = ()
    withheld: tuple[Sent, ...] = ()
    top: int = 0
    """The highest seq that was ever given."""
    make: int = 0
    """A restored ledger gives its seqs to other batches."""
    is_opened: bool = False
    """The epoch's open has mirrored: members may publish."""
    topic: tuple[Sent, ...] = ()
    offset: int = 0
    sent: Sent | None = None
    late: tuple[int, Sent] | None = None
    """Committed, and not readable yet."""
    confirmed: int = 0
    """The newest batch that the ledger knows as sent: somebody has read it back."""
    begun: int = 0
    """The newest batch that a transaction may have sent, as the ledger keeps it."""
    mirrors: tuple[Mirror, ...] = (Mirror("member", is_current=False),) * 2
    admin: Mirror | None = None
    is_hurt: bool = False
    """A ledger was restored, or offsets were lost."""
    made: tuple[Sent, ...] = ()
    stopped: str = ""


Step = tuple[str, State, bool]
"""What happens, what comes of it, and whether it is a fault."""


class NotReadable(Exception):
    """Offsets are committed, and can't be read yet: whoever asks waits."""


class Look(NamedTuple):
    """A ledger snapshot and the topic, as `begin` asks them."""

    state: State
    without: frozenset[str]
    topics: Topics = Topics("output")
    max_rows: int = 9
    start: str | None = None
    resume_after: int | None = None

    @contextmanager
    def snapshot(self, region: str) -> Iterator["Look"]:
        yield self

    def knows(self, sent: Sent) -> bool:
        state = self.state
        if "head" in self.without:
            return sent.seq <= (state.live[-1].seq if state.live else 0)
        if "uuid" in self.without:
            return sent.seq <= state.top
        return sent in (NOTHING_SENT, *state.live, *state.rewound)

    def history(self) -> OutputHistory:
        state = self.state
        was_published = bool(state.live or state.rewound) and "published" not in self.without
        return OutputHistory(was_published, 0, state.confirmed or None, NOTHING_SENT)

    def newest_seq(self, region: str) -> int | None:
        seqs = [one.seq for one in self.state.topic]
        return None if "topic" in self.without else max(seqs, default=None)


class World:
    """`without` names guards that are taken out, and `order` the steps of a mirror."""

    def __init__(self, faults: Faults, batches: int, without: frozenset[str] = frozenset()) -> None:
        self.begin = State(faults)
        self._most = batches
        self._without = without
        self._order = ("fence", "look", "read")
        if "look after fence" in without:
            self._order = ("look", "fence", "read")
        if "read after fence" in without:
            self._order = ("read", "fence", "look")

    def steps(self, state: State) -> Iterator[Step]:
        if state.stopped:
            return
        if state.late:
            offset, sent = state.late
            yield "readable", state._replace(offset=offset, sent=sent, late=None), False
        for place in (0, 1, *((2,) if state.admin else ())):
            yield from self._mirror(state, place)
        if len(state.live) < self._most and state.is_opened and state.top <= self._most:
            yield "publish", _published(state), False
        yield from self._settles(state)
        yield from _disasters(state)

    def _settles(self, state: State) -> Iterator[Step]:
        fenced = _fenced(state)
        opening = fenced._replace(admin=Mirror("open", self._order[0]))
        if not state.is_opened and not state.admin:
            yield "open", opening, False
        elif state.faults.open:
            yield "open again", _paid(opening, "open"), True
        for to in range(len(state.live)) if state.faults.rewind else ():
            rewinding = fenced._replace(admin=Mirror("rewind", self._order[0], to=to))
            yield f"rewind to {to}", _paid(rewinding, "rewind"), True
        for batch in state.live if state.faults.withhold else ():
            fenced = state if "withhold's epoch" in self._without else _fenced(state)
            step = "mark" if "withhold's mirror" in self._without else self._order[0]
            withholding = fenced._replace(admin=Mirror("withhold", step, to=batch.seq))
            yield f"withhold {batch}", _paid(withholding, "withhold"), True

    def _mirror(self, state: State, place: int) -> Iterator[Step]:
        one = _at(state, place)
        name = f"{one.kind} {place}{'' if one.is_current else ' (zombie)'}"
        if one.step == "idle":
            if state.is_opened and one.is_current:
                begun = one._replace(step=self._order[0])
                yield f"{name} begins", _put(state, place, begun), False
            elif state.is_opened:
                yield f"a member joins at {place}", _put(state, place, Mirror("member")), False
            is_settling = state.admin and state.admin.kind != "open"
            if state.faults.hand and (not is_settling or "by hand" in self._without):
                by_hand = _put(state, place, Mirror("by hand", step=self._order[0]))
                yield f"a mirror by hand at {place}", _paid(by_hand, "hand"), True
            return
        for label, after, is_fault in getattr(self, f"_{one.step}")(state, place, one):
            yield f"{name} {label}", after, is_fault
        if state.faults.crash:
            yield f"{name} crashes", _paid(_gone(state, place, one), "crash"), True

    def _next(self, one: Mirror) -> str:
        place = self._order.index(one.step) + 1
        return self._order[place] if place < len(self._order) else "commit"

    def _fence(self, state: State, place: int, one: Mirror) -> Iterator[Step]:
        older = _without_newest(state)
        newest = one._replace(step=self._next(one), is_newest=True)
        yield "fences the others", _put(older, place, newest), False
        if one.has_writer and state.faults.keep:
            kept = _put(state, place, one._replace(step=self._next(one)))
            yield "goes on with its writer", _paid(kept, "keep"), True

    def _look(self, state: State, place: int, one: Mirror) -> Iterator[Step]:
        seqs = SentSeqs(state.confirmed, state.begun)
        looked = one._replace(step=self._next(one), seqs=seqs)
        if "memory" in self._without and one.remembered:
            found = frozenset({one.remembered})
            yield "remembers", _put(state, place, looked._replace(sent=found)), False
        elif not state.late or "stable" in self._without:
            found = frozenset({state.sent} if state.sent else ())
            yield f"looks: {found}", _put(state, place, looked._replace(sent=found)), False

    def _read(self, state: State, place: int, one: Mirror) -> Iterator[Step]:
        if not one.is_current and "epoch" not in self._without:
            yield "is fenced", _gone(state, place, one), False
            return
        if "read after fence" in self._without:
            read = (state.live, NOTHING_SENT, _offset(state, one))
            yield "reads", _put(state, place, one._replace(step="fence", todo=read)), False
            return
        try:
            todo = self._todo(state, one)
        except NotReadable:
            return
        except Fenced:
            again = one._replace(step=self._order[0], is_newest=False, has_writer=False)
            yield "is overtaken", _put(state, place, again), False
            return
        except Refused as refused:
            ended = _gone(state, place, one)
            stopped = state._replace(stopped=str(refused))
            yield "stops", ended if one.kind == "by hand" else stopped, False
            return
        ready = one._replace(step="commit", todo=todo)
        begun = max([state.begun, *(batch.seq for batch in todo[0])])
        yield f"reads, will send {todo[0]}", _put(state._replace(begun=begun), place, ready), False

    def _todo(self, state: State, one: Mirror) -> tuple[tuple[Sent, ...], Sent, int]:
        sent = self._sent(state, one)
        if one.kind == "rewind":
            lowered = (NOTHING_SENT, *state.live)[one.to]
            falls = "never falls" in self._without and lowered.seq < sent.seq
            return (), lowered if falls else sent, one.to
        if one.kind == "withhold":
            return (), sent, len(state.live)
        batches = tuple(batch for batch in state.live if batch.seq > sent.seq)
        newest = (sent, *batches)[-1]
        return tuple(one for one in batches if one not in state.withheld), newest, len(state.live)

    def _sent(self, state: State, one: Mirror) -> Sent:
        is_unchecked = one.kind == "rewind" and "rewind's look" in self._without
        if is_unchecked or ("missing" in self._without and not one.sent):
            return max(one.sent, default=NOTHING_SENT, key=lambda mark: mark.seq)
        asked, seqs = Look(state, self._without), one.seqs
        if "at least before the look" in self._without:
            seqs = replace(seqs, read_back=state.confirmed)
        if "at least" in self._without:
            seqs = replace(seqs, read_back=0)
        if "begun" in self._without:
            seqs = replace(seqs, begun=0)
        marks = [one.sent]

        def ask() -> frozenset[Sent]:
            return marks.pop() if marks else self._now_sent(state, one)

        seen = find_sent("r", asked, ask, seqs)  # type: ignore[arg-type]
        return begin("r", asked, asked, seen)  # type: ignore[arg-type]

    def _now_sent(self, state: State, one: Mirror) -> frozenset[Sent]:
        """What is read as sent when the topics were read."""
        if "asked again" in self._without:
            return one.sent
        if state.late:
            raise NotReadable
        return frozenset({state.sent} if state.sent else ())

    def _commit(self, state: State, place: int, one: Mirror) -> Iterator[Step]:
        assert one.todo
        batches, sent, offset = one.todo
        if "read after fence" in self._without:
            known = max((mark.seq for mark in one.sent), default=0)
            batches = tuple(batch for batch in batches if batch.seq > known)
            batches = () if one.kind == "rewind" else batches
            sent = (*one.sent, *batches, NOTHING_SENT)[0] if not batches else batches[-1]
        again = one._replace(
            step=self._order[0], sent=frozenset(), todo=None, is_newest=False, has_writer=False,
            seqs=SentSeqs(),
        )  # fmt: skip
        if not one.is_newest:
            after = _put(state, place, again) if place == 2 else _gone(state, place, one)
            yield "is overtaken", after, False
            return
        if "one transaction" in self._without and batches:
            apart = one._replace(todo=((), sent, offset))
            sent_first = _put(state, place, apart)._replace(topic=state.topic + batches)
            yield f"sends {batches} first", sent_first, False
            return
        done = self._done(state, place, one, sent)._replace(topic=state.topic + batches)
        known = max(state.confirmed, sent.seq)
        now = done._replace(offset=offset, sent=sent, late=None, confirmed=known)
        yield f"commits {batches}, offset {offset}, sent {sent}", now, False
        if state.faults.late:
            yield "commits, readable late", _paid(done._replace(late=(offset, sent)), "late"), True
        if state.faults.crash:
            unanswered = _put(now, place, again)._replace(
                is_opened=state.is_opened, confirmed=state.confirmed
            )
            yield "commits, and has no answer", _paid(unanswered, "crash"), True

    def _done(self, state: State, place: int, one: Mirror, sent: Sent) -> State:
        if one.kind == "rewind":
            return state._replace(admin=one._replace(step="remove", is_newest=False, todo=None))
        if one.kind == "withhold":
            return state._replace(admin=one._replace(step="mark", is_newest=False, todo=None))
        ended = _gone(state, place, one, sent if "memory" in self._without else None)
        if place != 2 and state.faults.keep:
            member = _at(ended, place)._replace(is_newest=True, has_writer=True)
            ended = _put(ended, place, member)
        is_opened = state.is_opened or (place == 2 and one.is_current)
        return ended._replace(is_opened=is_opened)

    def _remove(self, state: State, place: int, one: Mirror) -> Iterator[Step]:
        """The rewind's second transaction, which follows what reads back."""
        if not state.late or "read back" in self._without:
            live, rewound = state.live[: one.to], state.rewound + state.live[one.to :]
            yield "removes", state._replace(live=live, rewound=rewound, admin=None), False

    def _mark(self, state: State, place: int, one: Mirror) -> Iterator[Step]:
        """A withholding's second transaction, under its own epoch; then a mirror like others."""
        if state.late:
            return
        unsent = [
            batch
            for batch in state.live
            if state.sent and batch.seq > state.sent.seq and batch not in state.withheld
        ]
        if "withhold's ledger" not in self._without:
            unsent = [batch for batch in unsent if batch.seq > state.confirmed]
        meant = state.live if "withhold's check" in self._without else unsent[:1]
        withheld = tuple(batch for batch in meant if batch.seq == one.to)
        again = state._replace(admin=Mirror("open", self._order[0]))
        yield f"withholds {withheld}", again._replace(withheld=state.withheld + withheld), False

    def is_well(self, state: State) -> bool:
        """The region has stopped, or all that it may publish was sent."""
        if state.stopped:
            return True
        is_done = len(state.live) == self._most or state.top > self._most
        is_sent = not state.live or (state.sent and state.sent.seq >= state.live[-1].seq)
        return bool(
            is_done and is_sent and state.is_opened and not state.late and not state.admin
            and {*state.live} <= {*state.topic, *state.withheld} and state.offset == len(state.live)
        )  # fmt: skip


def _disasters(state: State) -> Iterator[Step]:
    if state.faults.restore and state.live and not state.rewound:
        top = state.live[-2].seq if state.live[1:] else 0
        older = state._replace(
            live=state.live[:-1], top=top, make=state.make + 1, is_hurt=True,
            confirmed=min(state.confirmed, top), begun=min(state.begun, top),
        )  # fmt: skip
        yield "the ledger is restored", _paid(older, "restore"), True
        yield "the ledger is restored, its epoch too", _paid(_fenced(older), "restore"), True
    if state.faults.expire and state.sent and not state.late:
        lost = state._replace(offset=0, sent=None, is_hurt=True)
        yield "the group's offsets are lost", _paid(lost, "expire"), True
    if state.faults.older and state.sent and state.sent.seq and not state.late:
        for older_mark in (NOTHING_SENT, *state.live[:-1]):
            if older_mark.seq < state.sent.seq:
                found = state._replace(offset=0, sent=older_mark, is_hurt=True)
                yield f"{older_mark} is found as sent", _paid(found, "older"), True


def _published(state: State) -> State:
    batch = Sent(state.top + 1, UUID(int=100 * (state.make + 1) + state.top + 1))
    made = (*state.made, batch)
    return state._replace(live=(*state.live, batch), top=batch.seq, made=made)


def _offset(state: State, one: Mirror) -> int:
    return one.to if one.kind == "rewind" else len(state.live)


def _at(state: State, place: int) -> Mirror:
    found = state.admin if place == 2 else state.mirrors[place]
    assert found
    return found


def _put(state: State, place: int, one: Mirror | None) -> State:
    if place == 2:
        return state._replace(admin=one)
    assert one
    mirrors = (*state.mirrors[:place], one, *state.mirrors[place + 1 :])
    return state._replace(mirrors=mirrors)


def _gone(state: State, place: int, one: Mirror, remembered: Sent | None = None) -> State:
    """It is idle, or the administrator has ended."""
    if place == 2:
        return _put(state, place, None)
    kept = remembered or one.remembered
    return _put(state, place, Mirror("member", is_current=one.is_current, remembered=kept))


def _without_newest(state: State) -> State:
    mirrors = tuple(one._replace(is_newest=False) for one in state.mirrors)
    admin = state.admin and state.admin._replace(is_newest=False)
    return state._replace(mirrors=mirrors, admin=admin)


def _fenced(state: State) -> State:
    """Another epoch has begun."""
    mirrors = tuple(one._replace(is_current=False) for one in state.mirrors)
    return state._replace(mirrors=mirrors, admin=None, is_opened=False)


def _paid(state: State, fault: str) -> State:
    left = getattr(state.faults, fault) - 1
    return state._replace(faults=state.faults._replace(**{fault: left}))
