"""Every order of events around replays of dead letters, with all others at work.

Each step calls the library's own function on a ledger in memory. Between two steps of one process
everybody else may do all that they can, so that a process sleeps before every transaction.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

from tests.support.fake_dead_letters import (
    BAD,
    DeadLetter,
    DeadLetterLedger,
    DeadLetterTarget,
    Planned,
    Published,
    Tables,
)
from tests.support.fake_ledger import Asleep
from tests.support.fake_tables import CLUSTER, REGION, TARGET
from tests.support.fakes import FakeGroup

from tidemark.errors import ClaimsLost, Fenced, StagingLost, TidemarkError, by_code
from tidemark.model.batch import ONLY, Attempt, Batch, Contribution, SpanRead
from tidemark.model.dead_letters import DeadLetterFilter, Replayed
from tidemark.model.facts import Facts
from tidemark.model.offsets import Span
from tidemark.protocol import settle as settling
from tidemark.protocol.publish import publish_complete
from tidemark.protocol.replay import ReplayRequest, plan_replay, publish_replay
from tidemark.protocol.reset import RewindRequest

Outcome = tuple[Any, Tables]


class Process(NamedTuple):
    """A replay, the rewind or the zombie drain: what it does next, and what it knows."""

    kind: str
    step: str
    epoch: int = 0
    batch: Batch | None = None
    rows: int = 0
    bad: int = 0


class State(NamedTuple):
    """The tables, who is at work, and which faults may still happen."""

    tables: Tables
    processes: tuple[Process, ...]
    unanswered: int = 0
    postgres: int = 0
    is_emptied: bool = False


class Replays:
    """Record 0 can be decoded now, record 1 never; record 2 is of a drain that lives on."""

    def __init__(
        self,
        kinds: Collection[str],
        *,
        to_seq: int = 1,
        unanswered: int = 0,
        postgres: int = 0,
        without: Collection[str] = (),
    ) -> None:
        self.without, self.to_seq = without, to_seq
        dead_letters = (DeadLetter(0, 1), DeadLetter(BAD, 1))
        drain = Planned(2, 1, 1, (2,))
        first = Published(1, 0, 2, 0)
        tables = Tables(2, 1, 1, 3, (drain,), (first,), dead_letters, staged=frozenset({(2, 2)}))
        steps = {"drain": "publish"}
        found = [Process(kind, steps.get(kind, "look"), 1) for kind in kinds]
        self.begin = State(tables, tuple(found), unanswered, postgres)

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        """All that may happen next."""
        for place, process in enumerate(state.processes):
            if process.step != "end":
                yield from self._step(state, place, process)
        if state.postgres and (state.tables.staged or state.tables.staged_bad):
            for table, emptied in (
                ("staged", state.tables._replace(staged=frozenset())),
                ("staged_bad", state.tables._replace(staged_bad=frozenset())),
            ):
                gone = state._replace(tables=emptied, postgres=state.postgres - 1, is_emptied=True)
                yield f"Postgres crashes, {table} is empty", gone

    def _step(self, state: State, place: int, process: Process) -> Iterator[tuple[str, State]]:
        fates: list[tuple[tuple[str, ...], int]] = [((), 0)]
        if process.step == "ask":
            fates = [(("earlier",), 0)]
        elif process.step == "publish" and process.kind != "drain" and state.unanswered:
            fates += [(("sent", "asleep"), 1), (("lost", "asleep"), 1)]
        for fate, paid in fates:
            told, tables = self._call(state.tables, process, fate)
            after = self._told(process, told, tables, is_emptied=state.is_emptied)
            processes = (*state.processes[:place], after, *state.processes[place + 1 :])
            told = told if isinstance(told, type) else type(told).__name__
            then = state._replace(
                tables=tables, processes=processes, unanswered=state.unanswered - paid
            )
            yield f"{process.kind} {place} {process.step} {fate}: {told}", then

    def _call(self, tables: Tables, process: Process, fate: tuple[str, ...]) -> Outcome:
        ledger = DeadLetterLedger(tables, self.without, fate)  # type: ignore[arg-type]  # tables of its own
        step = "publish" if process.step == "ask" else process.step
        function: Callable[..., Any] = getattr(self, f"_{process.kind}_{step}")
        try:
            told = function(ledger, process)
        except Asleep:
            told = Asleep
        except TidemarkError as error:
            told = by_code()[error.code]
        return told, ledger.tables

    def _told(self, process: Process, told: Any, tables: Tables, *, is_emptied: bool) -> Process:
        """The process with what it was told, which must be so."""
        if told is Asleep:
            return process._replace(step="ask")
        if isinstance(told, Process):
            return told
        if isinstance(told, Replayed) and not any(p.seq == told.seq for p in tables.published):
            # a rewind may have come since
            assert tables.epoch > process.epoch, "a replay is told that it was published"
        if told is Fenced:
            assert tables.epoch > process.epoch, f"{process.kind} is fenced in its own epoch"
        if told in (StagingLost, ClaimsLost):
            assert is_emptied, f"{process.kind} is told StagingLost"
        return process._replace(step="end")

    # --- a drain that lives on ---

    def _drain_publish(self, ledger: DeadLetterLedger, process: Process) -> Any:
        return publish_complete(ledger, DeadLetterTarget(), REGION, process.epoch)

    # --- a replay ---

    def _replay_look(self, ledger: DeadLetterLedger, process: Process) -> Process:
        return process._replace(step="fence", epoch=ledger.tables.epoch)

    def _replay_fence(self, ledger: DeadLetterLedger, process: Process) -> Process:
        request = ReplayRequest("test", "a test", epoch=process.epoch, targets={ONLY: TARGET})
        settled = settling.settle(ledger, FakeGroup(), REGION, request)
        return process._replace(step="plan", epoch=settled.epoch)

    def _replay_plan(self, ledger: DeadLetterLedger, process: Process) -> Any:
        batch = plan_replay(ledger, REGION, process.epoch, DeadLetterFilter(), 9)
        return process._replace(step="stage", batch=batch) if batch else None

    def _replay_stage(self, ledger: DeadLetterLedger, process: Process) -> Process:
        """A job reads what is chosen, each record as it is now."""
        assert process.batch
        seq, tables = process.batch.seq, ledger.tables
        chosen = {one.offset for one in tables.dead_letters if one.chosen == seq}
        good = {(seq, offset) for offset in chosen - {BAD}}
        bad = {(seq, offset) for offset in chosen & {BAD}}
        ledger.tables = tables._replace(
            staged=tables.staged | good, staged_bad=tables.staged_bad | bad
        )
        return process._replace(step="publish", rows=len(good), bad=len(bad))

    def _replay_publish(self, ledger: DeadLetterLedger, process: Process) -> Any:
        assert process.batch
        read = SpanRead(Span("t", 0, 0, 3), 1, 1, process.rows + process.bad, process.bad)
        given = Contribution(1, (read,), (Attempt(1, 1, {ONLY: process.rows}),))
        return publish_replay(ledger, DeadLetterTarget(), process.batch, given)

    # --- a rewind ---

    def _rewind_look(self, ledger: DeadLetterLedger, process: Process) -> Process:
        return process._replace(step="lower", epoch=ledger.tables.epoch)

    def _rewind_lower(self, ledger: DeadLetterLedger, process: Process) -> Process:
        request = self._rewind(process)
        settled = settling.settle(ledger, FakeGroup(), REGION, request)
        return process._replace(step="remove", epoch=settled.epoch)

    def _rewind_remove(self, ledger: DeadLetterLedger, process: Process) -> None:
        settling._rewind(ledger, DeadLetterTarget(), REGION, process.epoch, self._rewind(process))

    def _rewind(self, process: Process) -> RewindRequest:
        facts = Facts(CLUSTER, {}, {}, {})
        return RewindRequest("test", "a test", self.to_seq, facts, process.epoch, {ONLY: TARGET})


def broken_promise(tables: Tables) -> str:
    """The first promise that is broken, in words; nothing if all hold."""
    for offset in range(tables.next_offset):
        rows = sum(row[1] == offset for row in tables.rows)
        is_bad = any(one.offset == offset and one.replayed is None for one in tables.dead_letters)
        if rows + is_bad != 1:
            return f"record {offset} is {rows} rows, and is{'' if is_bad else ' no'} dead letter"
    if any(offset == BAD or offset >= tables.next_offset for _, offset in tables.rows):
        return "a row of no record that was read, or of one that can't be decoded"
    seqs = [one.seq for one in tables.published]
    if [one.previous for one in tables.published] != [0, *seqs][: len(seqs)]:
        return f"published without the one before: {tables.published}"
    if tables.head_seq != ([0, *seqs])[-1]:
        return f"the head is {tables.head_seq}, published are {seqs}"
    marks = {one.replayed for one in tables.dead_letters} - {None}
    if not marks <= {one.seq for one in tables.published if one.is_replay}:
        return f"marked as replayed by {marks}, published are {seqs}"
    return ""


def searched(world: Replays, most: int = 300_000) -> tuple[int, str]:
    """How many states there are, and what is wrong in the nearest one, with the way there."""
    states, came = [world.begin], {world.begin: (-1, "begin")}
    for number, state in enumerate(states):  # it grows
        wrong = broken_promise(state.tables)
        try:
            found = [] if wrong else list(world.steps(state))
        except AssertionError as error:
            wrong, found = str(error), []
        if wrong:
            return len(states), f"{wrong}: {' · '.join(_way(states, came, number))}"
        for label, after in found:
            if after not in came:
                came[after] = number, label
                states.append(after)
        if len(states) > most:
            raise MemoryError(f"more than {most} states")
    return len(states), ""


def _way(states: list[State], came: dict[State, tuple[int, str]], number: int) -> list[str]:
    found = []
    while number >= 0:
        number, label = came[states[number]]
        found.append(label)
    return found[::-1]
