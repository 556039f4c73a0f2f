"""What a replay did, or would do: its report, and the lines and the sentence that tell it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidemark.model.plain import amount


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What a replay did, or in a dry run (applied false) would do."""

    region: str
    applied: bool
    epoch: int
    head_seq: int
    chosen: int
    """Dead letters that are meant and can be replayed, at most the limit."""
    replayed: int
    """They are rows now; in a dry run: they can be decoded, and the transform was not asked."""
    kept: dict[str, int]
    """They fail again; by their reason."""
    not_kept_raw: int
    """They are meant too, but the ledger has no whole record: the target refused their rows, or the
    client could not give their headers."""
    rows: int | None = None
    """That were published; None in a dry run."""
    refused: str | None = None
    """Of a dry run: why a replay would be refused now."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to replay."""
        return not self.chosen


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What the replay of a batch did, or in a dry run (applied false) would do."""

    region: str
    applied: bool
    epoch: int
    seq: int
    spans: int
    records: int
    """That are read anew."""
    rows_before: int
    """Of all targets; they are removed."""
    dead_letters_before: int
    """Removed too, except those that a replay has made rows of."""
    rows: int | None = None
    """Published in their place; None in a dry run."""
    dead_letters: int | None = None
    refused: str | None = None
    """Of a dry run: why a replay would be refused now."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to replay."""
        return False


AnyReplay = ReplayReport | BatchReport


def report_of(answer: Mapping[str, Any]) -> AnyReplay:
    """The report that `tidemark replay -o json` has printed."""
    return BatchReport(**answer) if "seq" in answer else ReplayReport(**answer)


def replayed(report: AnyReplay) -> str:
    """Name what is replayed: `batch 7`, or `dead letters`."""
    return f"batch {report.seq}" if isinstance(report, BatchReport) else "dead letters"


def replay_lines(report: AnyReplay) -> Iterator[str]:
    """What it did, or would do, a line each, for terminals and logs."""
    yield from _batch_lines(report) if isinstance(report, BatchReport) else _lines(report)
    if report.refused:
        yield f"  refused     {report.refused}"


def _batch_lines(report: BatchReport) -> Iterator[str]:
    yield f"  read again  {amount(report.records, 'record')} in {amount(report.spans, 'span')}"
    before = _held(report.rows_before, report.dead_letters_before)
    yield f"  {'removed' if report.applied else 'holds now':12}{before}"
    if report.applied:
        yield f"  published   {_held(report.rows or 0, report.dead_letters or 0)}"


def _lines(report: ReplayReport) -> Iterator[str]:
    yield f"  chosen      {amount(report.chosen, 'dead letter')}"
    yield f"  {'replayed' if report.applied else 'decodable':12}{report.replayed:,}"
    for reason, count in report.kept.items():
        yield f"  fail again  {count:,} {reason}"
    if report.not_kept_raw:
        lacking = "the ledger keeps only their rows, or lacks their headers"
        yield f"  skipped     {report.not_kept_raw:,}: {lacking}"
    if report.applied:
        rows = amount(report.rows or 0, "row")
        yield f"  published   batch {report.head_seq}, epoch {report.epoch}: {rows}"


def replay_summary(report: AnyReplay) -> str:
    """One sentence of numbers alone, for whoever may read the DAG sees it."""
    if report.applied:
        return _was_done(report)
    if report.is_empty:
        return "No dead letter to replay. Nothing was changed."
    refused = " It would be refused now: its log says why." if report.refused else ""
    return f"Dry run: {_would_be_done(report)}. Nothing was changed.{refused}"


def _was_done(report: AnyReplay) -> str:
    if isinstance(report, BatchReport):
        before = _held(report.rows_before, report.dead_letters_before)
        now = _held(report.rows or 0, report.dead_letters or 0)
        return f"Replaced what batch {report.seq} holds: {before} before, {now} now."
    dead_letters, rows = amount(report.replayed, "dead letter"), amount(report.rows or 0, "row")
    return f"Replayed {dead_letters} as {rows}; {sum(report.kept.values()):,} failed again."


def _would_be_done(report: AnyReplay) -> str:
    if isinstance(report, BatchReport):
        records = amount(report.records, "record")
        before = _held(report.rows_before, report.dead_letters_before)
        return f"would read {records} of batch {report.seq} again, for its {before}"
    dead_letters = amount(report.replayed, "dead letter")
    return f"would replay {dead_letters}; {sum(report.kept.values()):,} would fail again"


def _held(rows: int, dead_letters: int) -> str:
    return f"{amount(rows, 'row')} and {amount(dead_letters, 'dead letter')}"
