"""What a task has done, in short lines for its log and in JSON's own types for XCom.

And how it failed: which errors Airflow may retry.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk import get_current_context

from tidemark.admin.replay_report import ReplayReport, replay_lines, replay_summary
from tidemark.airflow.compat import AirflowException, AirflowFailException
from tidemark.errors import TidemarkError, by_code
from tidemark.model.plain import amount, plain
from tidemark.settings.described import ERROR

if TYPE_CHECKING:
    from tidemark.admin.reset import ResetReport
    from tidemark.ledger.periods import PeriodNews
    from tidemark.protocol.close import Closed
    from tidemark.runs.open import Opened

log = logging.getLogger(__name__)


Result = dict[str, Any]

MOST_ROWS = 100
"""Partitions in a log's table; XCom holds them all."""


def open_lines(region: str, run_id: str, opened: "Opened") -> Iterator[str]:
    """An open run, for the log."""
    yield f"OPEN: region {region}, epoch {opened.epoch}, run {run_id}"
    yield f"  to read     {amount(opened.backlog, 'offset')}, up to the target offsets"
    yield from table(("partition", "target offset"), sorted(opened.targets.items()))


def of_close(closed: "Closed") -> Result:
    """A closed run, for XCom and for the verdict."""
    counts: Result = plain(closed)
    at = counts.pop("checkpoint")
    return {key: at[key] for key in ("region", "epoch", "seq", "offsets")} | counts


def close_lines(table_name: str, result: Result) -> Iterator[str]:
    """A closed run, for the log."""
    yield f"DONE: region {result['region']}, epoch {result['epoch']}"
    yield f"  published   {_published(result)}"
    yield f"  checkpoint  {result['seq']}, in {table_name} and in Kafka's group offsets"
    yield from table(("partition", "next offset"), sorted(result["offsets"].items()))


def period_lines(news: "PeriodNews") -> Iterator[str]:
    """Periods that are complete, for the log."""
    again = f", {len(news.again)} of them told before" if news.again else ""
    first, last = news.periods[0].key, news.periods[-1].key
    yield f"  complete    {amount(len(news.periods), 'period')}, {first} to {last}{again}"


def verdict_lines(table_name: str, result: Result) -> Iterator[str]:
    """A run that is done, in a few words."""
    yield f"DONE: {table_name} and Kafka stand at checkpoint {result['seq']}"
    yield f"  this run    {_published(result)}"
    if result["dead_letters"]:
        yield f"  look at     tidemark dead-letters {result['region']}"


APPLY = "To do it, trigger the DAG again with Apply switched on"


def reset_log(into: str, report: "ResetReport", next_step: str = APPLY) -> Iterator[str]:
    """A reset or its dry run, for the log; nobody takes one for the other."""
    from tidemark.admin.reset import reset_lines

    if report.applied:
        yield f"DONE: {report.kind} of region {report.region}"
    else:
        yield f"DRY RUN: {report.kind} of region {report.region}. NOTHING WAS CHANGED. It would:"
    yield from reset_lines(report, into)
    yield from _places(report)
    if not report.applied:
        yield next_step


def of_reset(table_name: str, report: "ResetReport") -> Result:
    """A reset or its dry run, for XCom: first what it did, in a sentence."""
    return {"summary": reset_summary(table_name, report), **plain(report)}


def reset_summary(table_name: str, report: "ResetReport") -> str:
    """What is gone, or would be: numbers alone, for whoever may read the DAG sees it."""
    gone = _rows_gone(table_name, report)
    if report.applied:
        return f"Removed {gone}{_discarded(report, 'discarded')}."
    return f"Dry run: would remove {gone}{_discarded(report, 'discard')}. Nothing was changed."


def replay_log(report: ReplayReport) -> Iterator[str]:
    """A replay or its dry run, for the log; nobody takes one for the other."""
    what = f"replay of dead letters, region {report.region}"
    if report.is_empty:
        yield f"NOTHING TO REPLAY: {what}"
    else:
        yield f"DONE: {what}" if report.applied else f"DRY RUN: {what}. NOTHING WAS CHANGED"
    yield from replay_lines(report)
    if not (report.applied or report.refused or report.is_empty):
        yield "To do it, trigger the DAG again with Apply switched on"


def of_replay(report: ReplayReport) -> Result:
    """A replay or its dry run, for XCom: first what it did, in a sentence."""
    return {"summary": replay_summary(report), **plain(report)}


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """A plain table, indented, numbers flush right; rows beyond the first ones are counted."""
    found = [[_cell(one) for one in row] for row in rows]
    shown = [list(columns), *found[:MOST_ROWS]]
    widths = [max(len(row[n]) for row in shown) for n in range(len(columns))]
    for row in shown if found else ():
        first, *others = (cell.ljust(widths[0]) if n == 0 else cell.rjust(widths[n])
                          for n, cell in enumerate(row))  # fmt: skip
        yield "  " + "  ".join((first, *others))
    if len(found) > MOST_ROWS:
        yield f"  and {len(found) - MOST_ROWS} more: XCom has them all"


def _rows_gone(table_name: str, report: "ResetReport") -> str:
    back = report.removed
    if back is None or not back.batches:
        return f"no row of {table_name}"
    first, last = report.to_seq + 1, report.head_seq
    seqs = f"batch {last}" if first == last else f"batches {first}-{last}"
    dead_letters = f" and {amount(back.dead_letters, 'dead letter')}" if back.dead_letters else ""
    return f"{amount(back.rows, 'row')} of {table_name}{dead_letters} ({seqs})"


def _discarded(report: "ResetReport", verb: str) -> str:
    seqs = " and ".join(f"batch {seq}" for seq in report.discarded_seqs)
    return f"; {verb} {seqs}, unpublished" if seqs else ""


def _places(report: "ResetReport") -> Iterator[str]:
    if back := report.removed:
        yield from table(
            ("partition", "from", "to", "read again", "margin"),
            [
                (at, back.offsets[at], report.offsets[at], again, back.margins.get(at))
                for at, again in report.read_again.items()
            ],
        )


def _published(result: Mapping[str, Any]) -> str:
    if not result["batches"]:
        return "nothing new"
    return (
        f"{amount(result['batches'], 'batch')}: {amount(result['rows'], 'row')},"
        f" {amount(result['dead_letters'], 'dead letter')}"
    )


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def names_by_exit_code() -> dict[int, str]:
    """The errors that no retry can help, by the exit code a driver ends with: {10: "FENCED"}.

    An exit code that several errors have is left out if a retry may help one of them.
    """
    kinds = by_code()
    retried = {kind.exit_code for kind in kinds.values() if kind.retry_may_help}
    return {kind.exit_code: code for code, kind in kinds.items() if kind.exit_code not in retried}


@contextmanager
def as_airflow_failure(*final: type[TidemarkError]) -> Iterator[None]:
    """Turn an expected error into the Airflow failure that retries, or doesn't, as it should.

    Raises:
        AirflowFailException: no retry: the exit code says so, or the error is one of `final`.
        AirflowException: a retry may help.
    """
    try:
        yield
    except TidemarkError as error:
        keep_code(error.code)
        text = f"{error.code}: {error}"
        if not error.retry_may_help or isinstance(error, final):
            raise AirflowFailException(text) from error
        raise AirflowException(text) from error


@contextmanager
def best_effort(what: str) -> Iterator[None]:
    """Log what goes wrong inside; never fail the task for it: the ledger has decided.

    Not even by Airflow's time-out, which is a BaseException. Who ends the process still does.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        log.warning("%s is not told: %s: %s", what, type(error).__name__, error)


def keep_code(code: str) -> None:
    """The running task ends with this error: its XCom `tidemark_error` says so, and the page."""
    try:
        get_current_context()["ti"].xcom_push(ERROR, code)
    except Exception as error:  # the task's own error is what counts
        log.info("the region's page can't show the code %s: %s", code, error)
