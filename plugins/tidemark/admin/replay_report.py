"""What a replay did, or would do: its report, and the lines and the sentence that tell it."""

from collections.abc import Iterator
from dataclasses import dataclass

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


def replay_lines(report: ReplayReport) -> Iterator[str]:
    """What it did, or would do, a line each, for terminals and logs."""
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
    if report.refused:
        yield f"  refused     {report.refused}"


def replay_summary(report: ReplayReport) -> str:
    """One sentence of numbers alone, for whoever may read the DAG sees it."""
    dead_letters, kept = amount(report.replayed, "dead letter"), sum(report.kept.values())
    if report.applied:
        rows = amount(report.rows or 0, "row")
        return f"Replayed {dead_letters} as {rows}; {kept:,} failed again."
    if report.is_empty:
        return "No dead letter to replay. Nothing was changed."
    refused = " It would be refused now: its log says why." if report.refused else ""
    would = f"would replay {dead_letters}; {kept:,} would fail again"
    return f"Dry run: {would}. Nothing was changed.{refused}"
