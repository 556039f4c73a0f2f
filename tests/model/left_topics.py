"""Every order of runs, edits of the topics that a file names, and rewinds.

The refusal is the library's own. Offsets are numbers of runs: each reads one record of each topic.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.support.fake_tables import CLUSTER, REGION, TARGET, TOPIC_ID

from tidemark.errors import Refused, Superseded
from tidemark.model.batch import ONLY, Removal
from tidemark.model.facts import Facts
from tidemark.model.offsets import TopicPartition
from tidemark.model.overrides import ACCEPT_DATA_LOSS
from tidemark.model.state import KnownTarget, RegionState
from tidemark.protocol.reset import RewindRequest
from tidemark.protocol.rewind_plan import Place, RewindPlan

KEPT, LEFT = TopicPartition("kept", 0), TopicPartition("left", 0)


class Look(NamedTuple):
    """What a rewind knows: the epoch, its place, whether the file names the topic, a consent."""

    epoch: int
    to_seq: int
    is_named: bool
    is_accepted: bool


class State(NamedTuple):
    """The ledger, the file, and a rewind that has looked."""

    checkpoints: tuple[tuple[int, int], ...] = ((0, 0),)
    """The next offsets of both topics, by seq."""
    epoch: int = 0
    is_read: bool = True
    """Whether the newest run reads the second topic."""
    is_named: bool = True
    """Whether the file names it by now."""
    stood_at: int = 0
    """Where the topic stood when a run left it, and nobody has accepted a loss."""
    rewind: Look | None = None
    end: int = 0
    """Of the topic that is left: records come while it is read."""

    @property
    def next_offset(self) -> int:
        return self.checkpoints[-1][1]


class Transaction:
    """What a rewind asks under the region lock."""

    def __init__(self, state: State) -> None:
        self.tables = state
        head = len(state.checkpoints) - 1
        targets = {ONLY: KnownTarget(TARGET)}
        self.state = RegionState(
            REGION, state.epoch, head, head + 1, CLUSTER, REGION, targets=targets
        )

    def rewind_plan(self, to_seq: int) -> RewindPlan:
        now, then = self.tables.checkpoints[-1], self.tables.checkpoints[to_seq]
        read = (True, self.tables.is_read)
        places = {
            tp: Place(TOPIC_ID, then[n], now[n], now[n] - then[n], read[n])
            for n, tp in enumerate((KEPT, LEFT))
        }
        return RewindPlan(to_seq, True, 1, 0, [], places, Removal({}, 0))


def steps(state: State, runs: int) -> Iterator[tuple[str, State]]:
    """All that may happen next."""
    yield "the file changes", state._replace(is_named=not state.is_named)
    if state.epoch < runs:
        yield "a run", _run(state)
    head = len(state.checkpoints) - 1
    for to_seq in range(head if state.rewind is None else 0):
        for is_accepted in (False, True):
            look = Look(state.epoch, to_seq, state.is_named, is_accepted)
            yield f"a rewind looks: {look}", state._replace(rewind=look)
    if state.rewind:
        yield "it rewinds", _rewind(state._replace(rewind=None), state.rewind)


def _run(state: State) -> State:
    """It reads what the file names: a change of that is accepted."""
    kept, left = state.checkpoints[-1]
    is_left = state.is_read and not state.is_named
    end = state.end + 1 if state.is_named else state.end
    return state._replace(
        checkpoints=(*state.checkpoints, (kept + 1, end if state.is_named else left)),
        epoch=state.epoch + 1,
        is_read=state.is_named,
        stood_at=left if is_left else 0 if state.is_named else state.stood_at,
        end=end,
    )


def _rewind(state: State, look: Look) -> State:
    unsubscribed = frozenset() if look.is_named else frozenset({LEFT.topic})
    both = dict.fromkeys((KEPT, LEFT), 0)
    topics = {tp.topic: TOPIC_ID for tp in both}
    facts = Facts(CLUSTER, topics, both, both, unsubscribed=unsubscribed)
    overrides = (ACCEPT_DATA_LOSS,) if look.is_accepted else ()
    request = RewindRequest(
        "test", "a test", look.to_seq, facts, look.epoch, {ONLY: TARGET}, overrides=overrides
    )
    tx: Any = Transaction(state)
    try:
        request.check(tx)
    except (Refused, Superseded):
        return state
    checkpoints = state.checkpoints[: look.to_seq + 1]
    stood_at = 0 if look.is_accepted else state.stood_at
    return state._replace(checkpoints=checkpoints, epoch=state.epoch + 1, stood_at=stood_at)


def searched(runs: int) -> tuple[int, list[str]]:
    """How many states there are, and the way to the nearest one in which rows are lost."""
    came: dict[State, tuple[State | None, str]] = {State(): (None, "begin")}
    states = [State()]
    for state in states:  # it grows
        if not state.is_read and state.next_offset < state.stood_at:
            return len(states), _way(came, state)
        for label, after in steps(state, runs):
            if after not in came:
                came[after] = state, label
                states.append(after)
    return len(states), []


def _way(came: dict[State, tuple[State | None, str]], state: State | None) -> list[str]:
    found = []
    while state is not None:
        state, label = came[state]
        found.append(label)
    return found[::-1]
