"""A reset as a person reads it: what it changes, and where each partition goes."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidemark.cli.order import DRY
from tidemark.cli.output import brief, print_line, print_table
from tidemark.model.amount import amount

if TYPE_CHECKING:
    from tidemark.operations.member_health import MemberHealth
    from tidemark.operations.reset_report import ResetReport


def print_reset(report: "ResetReport", members: "list[MemberHealth]", table: str) -> None:
    """Print what a reset changed, or would change; for a rewind also its partitions."""
    for line in _lines(report, members, table):
        print_line(line)
    _print_places(report)
    if not report.applied:
        print_line(DRY)


def _lines(report: "ResetReport", members: "list[MemberHealth]", table: str) -> Iterator[str]:
    done, back = report.applied, report.removed
    what = "rewind" if back else "reset"
    yield f"region {report.region}: {what}" if done else f"region {report.region}: {what}, dry run"
    yield _epoch(report)
    for one in members:
        held = brief(one.partitions) or "nothing"
        fate = "not fenced" if one.kind == "foreign" else "fenced"
        note = "; it is FOREIGN, stop it" if one.kind == "foreign" else ""
        yield f"  {fate:12}{one.label}, holds {held}{note}"
    yield from _discarded(report)
    if back is None:
        yield f"  head        batch {report.head_seq} stays; no row of the target is removed"
    else:
        batches = f"{amount(back.batches, 'batch')} {'goes' if back.batches == 1 else 'go'}"
        yield f"  head        batch {report.head_seq} -> {_head(report)}; {batches}"
        letters = amount(back.dead_letters, "dead letter")
        yield f"  removed     {amount(back.rows, 'row')} of {table}, {letters}"
        if back.replays:
            yield f"  taken back  {amount(back.replays, 'replay')}: dead letters again"
        for fact in back.lost:
            yield f"  lost        {fact}"
    for difference in report.drift:
        yield f"  Kafka       differed: {difference}"
    if back is not None:
        again = sum(back.offsets[at] - to for at, to in report.offsets.items())
        yield f"  Kafka       the group's offsets go back with the ledger's, by {again} in all"
    elif not report.drift:
        yield "  Kafka       nothing: the group's offsets equal the ledger's"


def _discarded(report: "ResetReport") -> Iterator[str]:
    if not report.discarded_seqs:
        yield "  discarded   nothing: no batch is unpublished"
    for seq in report.discarded_seqs:
        yield f"  discarded   batch {seq}, which is not published, and its staging"


def _epoch(report: "ResetReport") -> str:
    if report.applied:
        return f"  epoch       {report.epoch}; every process of an earlier epoch is fenced"
    was = report.epoch
    return f"  epoch       {was} -> {was + 1}; every process of epoch {was} would be fenced"


def _head(report: "ResetReport") -> str:
    return str(report.to_seq) if report.to_seq else "0, the initial state"


def _time(seconds: int | None) -> str | None:
    if seconds is None:
        return None
    days, rest = divmod(max(seconds, 0), 86_400)
    return f"{days} d {rest // 3600} h" if days else f"{rest // 3600} h {rest % 3600 // 60} min"


def _print_places(report: "ResetReport") -> None:
    """Each partition, from where to where, and how far from what Kafka still holds."""
    back = report.removed
    if back is None:
        return
    print_line("")
    print_table(
        ("partition", "from", "to", "read again", "margin", "due in"),
        [
            (
                str(at),
                back.offsets[at],
                to,
                back.offsets[at] - to,
                back.margins[at],
                _time(back.seconds.get(at)),
            )
            for at, to in sorted(report.offsets.items())
        ],
    )
    print_line("")
