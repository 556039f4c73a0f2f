"""The verdict of a region by what its ledger, Kafka and Airflow tell."""

import re
from collections import deque
from collections.abc import Iterable, Iterator

from tidemark.errors import Fenced, RunNotDone, by_code
from tidemark.ledger.history import Standing
from tidemark.model.plain import amount
from tidemark.page.lags import Lag
from tidemark.page.ledgers import LedgerAnswer
from tidemark.page.seen import AirflowRun, SeenRegion, UnreadFile
from tidemark.settings.described import Role
from tidemark.views.verdict import (
    RUN_NOT_DONE,
    Level,
    Verdict,
    at_rest,
    failed,
    has_failed,
    never_opened,
    of_ledger,
    of_starts,
    waiting,
    worst,
)

NOT_ASKED = Lag()

_LINES = 2000
"""Looked at, from the end of the log."""
_CHARS = 1500
_ERROR = re.compile(rf"\b({'|'.join(sorted(by_code()))}): (.+)", re.DOTALL)
_NOT_TOLD = "no retry can help"  # the operator's word: the driver's own line stands before it


def error_in(lines: Iterable[str]) -> tuple[str, str] | None:
    """The last error that a log tells, as code and text."""
    found = None
    for line in deque(lines, _LINES):
        match = _ERROR.search(line)
        if match and _NOT_TOLD not in match[2]:
            found = match[1], match[2][:_CHARS].strip()
    return found


def verdict(seen: SeenRegion, ledger: LedgerAnswer, kafka: Lag = NOT_ASKED) -> Verdict:
    """Return the most severe verdict; as long as Kafka was not asked, no region is behind."""
    return worst(_verdicts(seen, ledger, kafka))


def _verdicts(seen: SeenRegion, ledger: LedgerAnswer, kafka: Lag) -> Iterator[Verdict]:
    if seen.unread:
        yield _unread(seen.unread)
    if problem := ledger.problem:
        sentence = f"The ledger can't be asked: {problem}"
        yield Verdict(Level.unknown, sentence, problem.hint, problem.code)
        return
    standing = ledger.standing
    yield from _of_airflow(seen, standing)
    yield from _of_many(seen)
    yield from of_starts(ledger.starts)
    if standing is None:
        yield _unknown_there(seen) or never_opened(kafka.lag)
    else:
        yield from _of_ledger(seen, standing)
        yield from _waiting(seen, standing, kafka.lag)
        if standing.state != "open":
            yield from at_rest(kafka.drifting, kafka.short)


def _of_many(seen: SeenRegion) -> Iterator[Verdict]:
    """Two DAGs that run a region fence each other's runs, or wait for them."""
    running = seen.dags.get(Role.run, ())
    if len(running) > 1:
        yield Verdict(
            Level.behind,
            f"{len(running)} DAGs run this region: {' and '.join(sorted(running))}.",
            "Delete all but one of the DAG files, or give each a region of its own.",
        )


def _unread(file: UnreadFile) -> Verdict:
    why = file.error or "Airflow shows the reason to users who may see its import errors."
    return Verdict(
        Level.red,
        f"Airflow can't read {file.file}, so no run starts: {why}",
        "Correct the file. This page shows the last version that Airflow could read.",
    )


def _unknown_there(seen: SeenRegion) -> Verdict | None:
    """Of a ledger that does not know a region whose newest run was green; None if none was."""
    run, conn_id = seen.last_run, seen.pipeline.warehouse
    if run is None or run.state != "success":
        return None
    return Verdict(
        Level.unknown,
        f"Run {run.ledger_id} succeeded, but the ledger of {conn_id} does not know the region.",
        f"{conn_id} leads to another database than the runs use, or the ledger was lost:"
        " `tidemark check` compares the connections. If the region was dropped, start a run.",
    )


def _of_ledger(seen: SeenRegion, standing: Standing) -> Iterator[Verdict]:
    left = standing.target_lag or 0
    verb = "is" if left == 1 else "are"
    how_far = f"{amount(left, 'offset')} {verb} left up to its target"
    run = seen.last_run
    if run and not run.gave(standing.run_id):
        run = None
    error = run.error if run else None
    resets = seen.pipeline.max_consecutive_resets
    yield from of_ledger(standing, resets, how_far, error=error or RUN_NOT_DONE)
    if standing.state == "open" and run and run.state in ("success", "failed"):
        yield Verdict(
            Level.red,
            f"Epoch {standing.epoch} is open, and its DAG run has ended without a reset.",
            "Start the next run: it fences what may be left, and goes on from the ledger.",
            RunNotDone.code,
        )


def _of_airflow(seen: SeenRegion, standing: Standing | None) -> Iterator[Verdict]:
    """A DAG run that failed last, of which the ledger does not tell."""
    run = seen.last_run
    if run is None or run.state != "failed" or not _is_newest(run, standing):
        return
    if standing is None or not run.gave(standing.run_id):
        reason = "it did not open, or another run took over."
        yield failed(run.ledger_id, reason, run.error or RUN_NOT_DONE)
    elif standing.state == "closed":
        reason = "the region was closed before a task of the DAG failed."
        yield failed(run.ledger_id, reason, run.error or (None, None))
    elif _has_failed_anew(run, standing):
        reason = "a task of the DAG failed after the region was reset."
        yield failed(run.ledger_id, reason, run.error or (None, None))


def _has_failed_anew(run: AirflowRun, standing: Standing) -> bool:
    """Whether it was cleared after a reset by hand, and not ended by it."""
    if standing.state != "reset" or has_failed(standing) or standing.newest_reset_at is None:
        return False
    is_later = run.ended_at is not None and run.ended_at > standing.newest_reset_at
    return is_later and (run.error is None or run.error[1] != Fenced.code)


def _is_newest(run: AirflowRun, standing: Standing | None) -> bool:
    """Whether nothing has opened in the ledger since the DAG run ended."""
    if standing is None or standing.newest_run_at is None or run.ended_at is None:
        return True
    return standing.newest_run_at <= run.ended_at


def _waiting(seen: SeenRegion, standing: Standing, lag: int | None) -> Iterator[Verdict]:
    """Records that no run is going to read by itself; between two scheduled runs some wait."""
    if lag is None or lag <= 0 or standing.state == "open":
        return
    if seen.is_paused:
        yield Verdict(Level.behind, f"{waiting(lag)}, and the DAG is paused.", "Unpause it.")
    elif seen.schedule is None:
        yield Verdict(Level.behind, f"{waiting(lag)}.", "Start a run: no schedule does.")
