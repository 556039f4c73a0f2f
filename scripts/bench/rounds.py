"""The paths in turns, round by round; what can't run is left out by its name."""

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import TypeVar

from scripts.bench.attempt import Run
from scripts.bench.kill import Killed, killed
from scripts.bench.paths import Path, paths
from scripts.bench.peer_attempts import Peers
from scripts.bench.tables import costs, deaths, speeds
from scripts.bench.whole_runs import console

Result = TypeVar("Result")


class Rounds:
    """What was measured so far."""

    def __init__(self, peers: Peers, only: str = "") -> None:
        self.peers = peers
        self.bench = peers.bench
        self.runs: dict[Path, list[Run]] = {one: [] for one in paths(peers) if only in str(one)}
        self.killed: dict[Path, Killed] = {}
        self.left_out: dict[str, str] = {}

    def take(self, repeat: int) -> None:
        """Each path once, and again: a machine that grows slower does so for all."""
        for number in range(1, repeat + 1):
            for path in list(self.runs):
                if run := self._tried(path, str(path), partial(self._run, path)):
                    self.runs[path].append(run)
                    rate = self.bench.records / run.work
                    whole = run.usage.wall
                    console.print(f"  {number}: {path}: {rate:,.0f} rows/s, {whole:.0f} s in all")
                else:
                    del self.runs[path]

    def kill(self) -> None:
        """One path of each kind, in the middle of its work; then it is started again."""
        for path in [path for path in self.runs if path.kill]:
            found = self._tried(path, f"{path}, killed", partial(self._kill, path))
            if found:
                self.killed[path] = found
                console.print(f"  killed: {path}: {found.lost:,} lost, {found.doubled:,} doubled")

    def show(self) -> None:
        """All tables, what was left out, and how busy the machine was with other work."""
        taken = {path: runs for path, runs in self.runs.items() if runs}
        console.print(speeds(taken, self.bench.records), costs(taken, self.bench.records))
        console.print(deaths(self.killed))
        others = [run.usage.others / run.usage.wall for runs in taken.values() for run in runs]
        if others:
            console.print(
                f"cores that other processes used meanwhile: {median(others):.2f}"
                f" ({min(others):.2f}-{max(others):.2f})"
            )
        for name, reason in self.left_out.items():
            console.print(f"left out: {name}: {reason}")

    def _run(self, path: Path) -> Run:
        return self.bench.taken(path.attempt())

    def _kill(self, path: Path) -> Killed:
        attempt = path.attempt()
        try:
            return killed(self.bench, attempt)
        finally:
            self.bench.erase(attempt)

    def _tried(self, path: Path, name: str, what: Callable[[], Result]) -> Result | None:
        try:
            return what()
        except Exception as error:  # the other paths go on
            self._leave_out(name, f"{type(error).__name__}: {error}")
            return None

    def _leave_out(self, name: str, reason: str) -> None:
        self.left_out[name] = reason
        console.print(f"  left out: {name}: {reason}")
