"""Run the suite again and again in random order: `python -m scripts.flakes MINUTES`.

Every round has a seed of its own, for the order and for which worker gets what; in the second half
of the time two busy loops run beside it. Prints each test that was ever red, with its seed and what
it said first. A red round is run again by `pytest -n 6 --shuffle SEED`.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".tidemark" / "flakes"
WORKERS = 6
LOOP = [sys.executable, "-c", "while True: pass"]


@dataclass(frozen=True, slots=True)
class Red:
    """A test that failed, or could not begin or end, in the round of a seed."""

    test: str
    seed: int
    words: str


def main(minutes: float) -> int:
    """Begin rounds until the time is over; 1 if a test was ever red."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    found: list[Red] = []
    seed = int(time.time())
    while (passed := time.monotonic() - began) < minutes * 60:
        is_busy = passed >= minutes * 30
        found += round_of(seed, is_busy)
        seed += 1
    for red in found:
        print(f"{red.test}\n    seed {red.seed}: {red.words}")
    print(f"{len(found)} red in {(time.monotonic() - began) / 60:.0f} minutes")
    return 1 if found else 0


def round_of(seed: int, is_busy: bool) -> list[Red]:
    """Run every test once; who was red."""
    report = FOLDER / f"{seed}.xml"
    command = [
        sys.executable, "-m", "pytest", "-n", str(WORKERS), "-q", "--tb=short",
        f"--shuffle={seed}", f"--junitxml={report}",
    ]  # fmt: skip
    began = time.monotonic()
    with ExitStack() as beside, (FOLDER / f"{seed}.log").open("w") as log:
        for _ in range(2 if is_busy else 0):
            loop = beside.enter_context(subprocess.Popen(LOOP))  # noqa: S603
            beside.callback(loop.kill)
        asked = subprocess.run(command, cwd=ROOT, stdout=log, stderr=log, check=False)  # noqa: S603
    found = [*reds(report, seed)] if report.exists() else []
    if asked.returncode and not found:
        found = [Red("the session itself", seed, f"ended with {asked.returncode}, see {log.name}")]
    load = ", two busy loops" if is_busy else ""
    took = time.monotonic() - began
    print(f"seed {seed}{load}: {len(found)} red, {took / 60:.1f} minutes", flush=True)
    return found


def reds(report: Path, seed: int) -> Iterator[Red]:
    """The tests of a JUnit report that failed or met an error."""
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 (pytest has written it)
        for kind in ("failure", "error"):
            for fault in case.findall(kind):
                test = f"{case.get('classname')}::{case.get('name')}"
                yield Red(test, seed, (fault.get("message") or kind).partition("\n")[0])


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
