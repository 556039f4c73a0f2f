"""Is it well, how far behind, what broke, what do I do: one word, one sentence, one remedy."""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from tidemark.errors import RunNotDone, TidemarkError, by_code
from tidemark.ledger.history import Standing
from tidemark.model.plain import amount
from tidemark.page.seen import SeenRegion, UnreadFile

_LINES = 2000
"""Looked at, from the end of the log."""
_CHARS = 1500
_ERROR = re.compile(rf"\b({'|'.join(sorted(by_code()))}): (.+)", re.DOTALL)
_NOT_TOLD = "no retry can help"  # the operator's word: the driver's own line stands before it


def remedy(code: str | None) -> str:
    """What to do about the error, in Markdown; of a code that is not ours its log tells more."""
    known = by_code()
    return known[code].hint if code in known else "Read its log."


def error_in(lines: Iterable[str]) -> tuple[str, str] | None:
    """The last error that a log tells, as code and text."""
    found = None
    for line in deque(lines, _LINES):
        match = _ERROR.search(line)
        if match and _NOT_TOLD not in match[2]:
            found = match[1], match[2][:_CHARS].strip()
    return found


class Level(StrEnum):
    """How a region is, the worst first."""

    red = "red"
    unknown = "unknown"
    behind = "behind"
    new = "new"
    running = "running"
    well = "well"

    @property
    def rank(self) -> int:
        """0 is the worst."""
        return list(Level).index(self)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the page says first."""

    level: Level
    sentence: str
    remedy: str = ""
    code: str | None = None


def verdict(
    seen: SeenRegion,
    standing: Standing | None,
    problem: TidemarkError | None = None,
    lag: int | None = None,
) -> Verdict:
    """The worst of what is known; without `lag`, which Kafka tells, nothing is behind."""
    found = _verdicts(seen, standing, problem, lag)
    return min(found, key=lambda one: one.level.rank)


def _verdicts(
    seen: SeenRegion, standing: Standing | None, problem: TidemarkError | None, lag: int | None
) -> Iterator[Verdict]:
    if seen.unread:
        yield _unread(seen.unread)
    if problem:
        sentence = f"The ledger can't be asked: {problem}"
        yield Verdict(Level.unknown, sentence, problem.hint, problem.code)
        return
    if standing is None:
        waits = f": {_wait(lag)}" if lag else ""
        yield Verdict(Level.new, f"It has not run yet{waits}.", "Start its first run.")
    else:
        yield from _of_ledger(seen, standing)
        yield from _waiting(seen, standing, lag)
    yield from _failed(seen, standing)


def _unread(file: UnreadFile) -> Verdict:
    why = file.error or "Airflow tells why to who may see its import errors."
    return Verdict(
        Level.red,
        f"Airflow can't read {file.file}, so no run starts: {why}",
        "Correct the file. What stands here is of the last time that it was read.",
    )


def _of_ledger(seen: SeenRegion, standing: Standing) -> Iterator[Verdict]:
    if standing.consecutive_resets >= seen.pipeline.max_consecutive_resets:
        yield Verdict(
            Level.red,
            f"{amount(standing.consecutive_resets, 'reset')} in a row: no run opens any more.",
            "Correct what the failed runs named, then reset by hand: to the last checkpoint, with"
            " Apply. That keeps all rows.",
            "REFUSED",
        )
    if standing.state == "open" and _has_ended(seen, standing):
        yield Verdict(
            Level.red,
            f"Epoch {standing.epoch} is open, and its DAG run has ended without a reset.",
            "Start the next run: it fences what may be left, and goes on from the ledger.",
            "RUN_NOT_DONE",
        )
    elif standing.state == "open":
        left = standing.target_lag or 0
        is_left = f"{amount(left, 'offset')} {'is' if left == 1 else 'are'} left"
        yield Verdict(Level.running, f"A run is on: {is_left} up to its target.")
    yield Verdict(Level.well, f"All is published up to checkpoint {standing.head_seq}.")


def _has_ended(seen: SeenRegion, standing: Standing) -> bool:
    run = seen.last_run
    is_it = run is not None and standing.run_id == f"{run.dag_id}/{run.run_id}"
    return is_it and run is not None and run.state in ("success", "failed")


def _failed(seen: SeenRegion, standing: Standing | None) -> Iterator[Verdict]:
    """A run that failed last, by the ledger's word or by Airflow's: it may not even have opened."""
    run = seen.last_run
    failed = run is not None and run.state == "failed" and _is_newest(seen, standing)
    if not failed and (standing is None or standing.state != "failed"):
        return
    name = run.run_id if run and failed else standing.run_id if standing else ""
    task_id, code = (run.error if run and failed else None) or (None, RunNotDone.code)
    unsaid = "it did not close" if standing else "it did not open"
    reason = standing.reason if standing and standing.reason else unsaid
    where = f" in the task {task_id}" if task_id else ""
    yield Verdict(
        Level.red, f"The newest run failed{where} ({name}): {reason}.", remedy(code), code
    )


def _is_newest(seen: SeenRegion, standing: Standing | None) -> bool:
    """Whether nothing has opened in the ledger since the newest DAG run ended."""
    run = seen.last_run
    if run is None or standing is None or standing.newest_run_at is None or run.ended_at is None:
        return True
    return standing.newest_run_at <= run.ended_at


def _waiting(seen: SeenRegion, standing: Standing, lag: int | None) -> Iterator[Verdict]:
    """Records that no run is going to read by itself; between two scheduled runs some wait."""
    if not lag or standing.state == "open":
        return
    if seen.is_paused:
        yield Verdict(Level.behind, f"{_wait(lag)}, and the DAG is paused.", "Unpause it.")
    elif seen.schedule is None:
        yield Verdict(Level.behind, f"{_wait(lag)}.", "Start a run: no schedule does.")


def _wait(lag: int) -> str:
    return f"{amount(lag, 'record')} {'waits' if lag == 1 else 'wait'}"
