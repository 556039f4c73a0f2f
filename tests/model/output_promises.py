"""What must hold of an output, whatever happened; and a search for a state in which it does not."""

from itertools import pairwise

from tests.model.output import State, World


def broken_promise(state: State) -> str:
    """The first promise that is broken, in words; nothing if all hold."""
    seqs = [one.seq for one in state.topic]
    if any(one >= after for one, after in pairwise(seqs)):
        return f"twice or out of order: {seqs}"
    if not {*state.topic} <= {*state.made}:
        return "sent, and never published"
    if both := {*state.topic} & {*state.withheld}:
        return f"sent, and withheld: {both}"
    if state.sent and not state.late and not state.is_hurt:
        left = [
            one.seq for one in state.live if one.seq <= state.sent.seq and one not in state.withheld
        ]
        if not {*left} <= {*seqs}:
            return f"{left} will never be sent: {state.sent.seq} was"
    if state.offset > len(state.live) and not state.is_hurt:
        return f"Kafka's offset {state.offset} is ahead of the ledger's {len(state.live)}"
    if state.stopped and not state.is_hurt:
        return f"stopped without a cause: {state.stopped}"
    return _lost_after_a_disaster(state)


def _lost_after_a_disaster(state: State) -> str:
    is_at_rest = state.is_hurt and state.is_opened and not (state.stopped or state.admin)
    if is_at_rest and state.live and state.sent == state.live[-1]:
        left = {*state.live} - {*state.topic, *state.withheld}
        return f"at rest, and {left} was never sent" if left else ""
    return ""


def searched(world: World, most: int = 4_000_000) -> tuple[int, str]:
    """How many states there are, and what is wrong in the nearest one, with the way there."""
    states, came = [world.begin], {world.begin: (-1, "begin")}
    numbers, edges = {world.begin: 0}, list[tuple[int, int]]()
    for number, state in enumerate(states):  # it grows
        if wrong := broken_promise(state):
            return len(states), f"{wrong}: {_way(states, came, number)}"
        for label, after, is_fault in world.steps(state):
            if after not in came:
                came[after], numbers[after] = (number, label), len(states)
                states.append(after)
            if not is_fault:
                edges.append((number, numbers[after]))
        if len(states) > most:
            raise MemoryError(f"more than {most} states")
    stuck = _stuck(world, states, edges)
    if stuck is None:
        return len(states), ""
    return len(states), f"without a further fault it is never done: {_way(states, came, stuck)}"


def _stuck(world: World, states: list[State], edges: list[tuple[int, int]]) -> int | None:
    """A state from which no way without a fault ends well."""
    before: list[list[int]] = [[] for _ in states]
    for number, after in edges:
        before[after].append(number)
    well = bytearray(world.is_well(state) for state in states)
    todo = [number for number, is_well in enumerate(well) if is_well]
    while todo:
        for number in before[todo.pop()]:
            if not well[number]:
                well[number] = 1
                todo.append(number)
    found = well.find(0)
    return found if found >= 0 else None


def _way(states: list[State], came: dict[State, tuple[int, str]], number: int) -> str:
    found = []
    while number > 0:
        number, label = came[states[number]]
        found.append(label)
    return " · ".join(found[::-1])
