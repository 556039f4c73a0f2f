"""Who drives a region: runs with several members, retries, resets, rewinds, dry runs, replays."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from threading import Event

import psutil
from tests.faults.broken import Broken
from tests.support.processes import family
from tests.torture.regions import TorturedRegion
from tests.torture.steps import step_of, traced
from tests.torture.tally import Tally

HUNG_SECONDS = 400
"""Longer than any time-out of a program."""
HAS_BATCH = "SELECT 1 FROM tidemark.batches WHERE state = 'published' LIMIT 1"
RUN = "run"
BY_HAND = {"reset": 3, "rewind": 2, "dry run": 3, "replay": 2}
"""What people do, by how often."""


class Crew:
    """All programs that are at work."""

    def __init__(self, steps: Path, tally: Tally) -> None:
        self.steps = steps
        self.tally = tally
        self._working: list[Broken] = []

    def work(self, region: TorturedRegion, program: str) -> int:
        """Run the program to its end; its exit code, negative if it was killed."""
        broken = Broken.start(region, program, seed=traced(self.steps))
        self._working.append(broken)
        broken.process.join(HUNG_SECONDS)
        if broken.runs():
            self.tally.found(f"{program} of {region.region} hangs in {self.step(broken.pid)}")
        broken.kill()
        broken.process.join()
        self._working.remove(broken)
        self._note(region, program, broken)
        return broken.process.exitcode or 0

    def drivers(self) -> list[psutil.Process]:
        """The driver of each program that works."""
        return [found[0] for one in list(self._working) if (found := family(one.pid))]

    def workers(self) -> list[psutil.Process]:
        """Their readers and writers."""
        return [worker for one in list(self._working) for worker in family(one.pid)[1:]]

    def processes(self) -> list[psutil.Process]:
        """Drivers and their readers and writers."""
        return [process for one in list(self._working) for process in family(one.pid)]

    def step(self, pid: int) -> str:
        """The step that the process is in."""
        return step_of(self.steps, pid)

    def _note(self, region: TorturedRegion, program: str, broken: Broken) -> None:
        code, words = broken.process.exitcode or 0, broken.words.read()
        broken.words.close()
        named = re.findall(r"^([A-Z_]+) (\w+): ", words, re.MULTILINE)
        last = " ".join(named[-1]) if named else "without a word"
        self.tally.ends[program, "done" if code == 0 else "killed" if code < 0 else last] += 1
        if "Traceback" in words or (code > 0 and not named):
            self.tally.found(f"{program} of {region.region} ended with {code}: {words[-1500:]}")


class Conductor:
    """Does with one region what Airflow does, and what people do beside it."""

    def __init__(self, region: TorturedRegion, crew: Crew, random: Random) -> None:
        self.region = region
        self._crew, self._random = crew, random
        self.over = Event()
        self._threads = [
            crew.tally.thread(f"{name} of {region.region}", partial(self._until_over, act))
            for name, act in (("runs", self._a_run), ("work by hand", self._by_hand))
        ]

    def end(self) -> None:
        """What is at work ends; nothing more begins."""
        self.over.set()
        for thread in self._threads:
            thread.join(HUNG_SECONDS + 60)

    def settle(self) -> bool:
        """Whether a last run drains the region, after all is healed; a reset may have to help."""
        codes = ((one, self._crew.work(self.region, one)) for one in (RUN, "reset", RUN, RUN))
        return any(program == RUN and code == 0 for program, code in codes)

    def _until_over(self, act: Callable[[], None]) -> None:
        while not self.over.is_set():
            act()

    def _a_run(self) -> None:
        """Open, one to three members, close; then retries, and a reset where they do not help."""
        codes: list[int] = []
        members = [lambda: codes.append(self._crew.work(self.region, RUN))]
        members += [self._join] * self._random.randint(0, 2)
        threads = [self._crew.tally.thread("a member", member) for member in members]
        for thread in threads:
            thread.join()
        if codes == [0]:
            return
        for _ in range(self._random.randint(0, 2)):
            if not self._is_open() or self._crew.work(self.region, "retry") == 0:
                return
        self._crew.work(self.region, "reset")

    def _join(self) -> None:
        """One more member, once a run is open."""
        for _ in range(20):
            if self.over.wait(0.3):
                return
            if self._is_open():
                self._crew.work(self.region, "member")
                return

    def _by_hand(self) -> None:
        """Now and then somebody does something, whoever is at work."""
        if not self.over.wait(self._random.uniform(8, 25)) and self.region.finds(HAS_BATCH):
            [program] = self._random.choices([*BY_HAND], [*BY_HAND.values()])
            self._crew.work(self.region, program)

    def _is_open(self) -> bool:
        return self.region.finds("SELECT 1 FROM tidemark.runs WHERE state = 'open'")
