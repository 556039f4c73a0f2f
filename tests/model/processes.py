"""The world of a model as one value: the processes, what they hold, and the faults to come."""

from typing import NamedTuple

from tests.support.fake_tables import REGION

from tidemark.model.batch import ONLY, Attempt, Batch, Contribution, SpanRead
from tidemark.model.offsets import Span, TopicPartition

Partitions = frozenset[TopicPartition]


class Part(NamedTuple):
    """Spans of one batch that a member works on."""

    seq: int
    epoch: int
    size: int
    spans: tuple[Span, ...]

    @property
    def batch(self) -> Batch:
        return Batch(REGION, self.epoch, self.seq, (), self.size)

    def contribution(self, member: int) -> Contribution:
        """What the member has staged; no two of its attempts at a batch have the same spans."""
        attempt = sum(1 << span.partition for span in self.spans)
        rows = sum(span.width for span in self.spans)
        reads = tuple(SpanRead(span, member, attempt, span.width, 0) for span in self.spans)
        return Contribution(member, reads, (Attempt(member, attempt, {ONLY: rows}),))


class Member(NamedTuple):
    """A driver process: what it drains, and what its publisher has in hand."""

    slot: int
    number: int
    epoch: int
    drains: Part | None = None
    hand: str = ""
    """What it does next with what is staged: prepare (plan the batch after it), contribute or
    publish; with `ask`, COMMIT had no answer."""
    given: Part | None = None
    memo: tuple[tuple[int, ...], Partitions] | None = None
    """Of the seeded bug `memo` alone: the batches of which nothing was left to do, and for whom."""

    @property
    def in_hand(self) -> Part | None:
        """What its publisher contributes meanwhile."""
        return self.given if self.hand != "prepare" else None

    @property
    def looks(self) -> bool:
        """Whether its loop comes to look: it neither drains nor publishes by itself."""
        return not self.drains and (not self.hand or bool(self.in_hand))


class Faults(NamedTuple):
    """How many of each may still happen."""

    crash: int = 0
    unanswered: int = 0
    postgres: int = 0
    reset: int = 0
    open: int = 0


class State(NamedTuple):
    """The world: the ledger's tables by their number, the processes, the faults to come."""

    tables: int
    members: tuple[Member, ...]
    faults: Faults
    is_emptied: bool = False
    """A crash of Postgres has emptied staging."""
    is_broken: bool = False
    """Claims were lost: the epoch can only end."""


def spent(state: State, fault: str) -> State:
    """One fault less may happen."""
    left = getattr(state.faults, fault) - 1
    return state._replace(faults=state.faults._replace(**{fault: left}))


def put(state: State, place: int, member: Member) -> State:
    """The member there has become another."""
    members = state.members
    return state._replace(members=(*members[:place], member, *members[place + 1 :]))


def gone(state: State, place: int) -> State:
    """The member there has ended."""
    return state._replace(members=state.members[:place] + state.members[place + 1 :])
