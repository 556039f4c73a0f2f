"""Breadth first through all that may happen: the way to what is wrong is a shortest one."""

from array import array
from collections.abc import Iterator

from tests.model.in_flight import Step, World, Wrong
from tests.model.processes import State


class Search:
    """Every state that can be reached, the nearest first; or the first in which something is wrong.

    Raises:
        MemoryError: there are more than `most` states.
    """

    def __init__(self, world: World, most: int = 100_000) -> None:
        self.world, self._most = world, most
        self.states: list[State] = [world.begin()]
        self.wrong = ""
        """The promise that is broken."""
        self.trace: list[str] = []
        """The shortest way there."""
        self._came = [(-1, "begin")]
        self._from, self._to = array("i"), array("i")
        try:
            self._go()
            self._ends_well()
        except Wrong as wrong:
            self.wrong = str(wrong)

    def __str__(self) -> str:
        tables = len(self.world.calls.tables)
        text = f"{len(self.states):,} states, {tables:,} of the ledger"
        return "\n".join([f"{text}: {self.wrong or 'all holds'}", *self.trace])

    def _go(self) -> None:
        numbers, checked = {self.states[0]: 0}, 0
        for number, state in enumerate(self.states):  # it grows
            self.trace = []
            for label, after, is_fault in self._steps(number, state):
                if after not in numbers:
                    numbers[after] = len(self.states)
                    self.states.append(after)
                    self._came.append((number, label))
                    if after.tables >= checked:
                        self._check(after.tables, numbers[after])
                        checked = after.tables + 1
                if not is_fault:
                    self._from.append(number)
                    self._to.append(numbers[after])
            if len(self.states) > self._most:
                raise MemoryError(f"more than {self._most} states")

    def _steps(self, number: int, state: State) -> Iterator[Step]:
        try:
            yield from self.world.steps(state)
        except Wrong:
            self.trace = self._way(number)
            raise

    def _check(self, tables: int, number: int) -> None:
        if text := self.world.wrong(tables):
            self.trace = self._way(number)
            raise Wrong(text)

    def _ends_well(self) -> None:
        """From every state the run can be done without a further fault."""
        well = bytearray(self.world.is_done_in(state) for state in self.states)
        grows = True
        while grows:
            grows = False
            for place in range(len(self._from) - 1, -1, -1):
                if well[self._to[place]] and not well[self._from[place]]:
                    well[self._from[place]] = grows = True
        if (stuck := well.find(0)) >= 0:
            self.trace = self._way(stuck)
            raise Wrong("without a further fault the run is never done")

    def _way(self, number: int) -> list[str]:
        found = []
        while number >= 0:
            number, label = self._came[number]
            found.append(label)
        return found[::-1]
