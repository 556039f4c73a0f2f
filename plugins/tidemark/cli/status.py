"""`tidemark status`: where regions stand in the ledger, in Kafka and in the target.

With --watch it shows them again and again, until Ctrl-C.
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from tidemark.cli.asking import statuses_of
from tidemark.cli.errors import Terminated, tell, tell_no_pipelines
from tidemark.cli.faults import WatchHasNoOutput
from tidemark.cli.output import (
    Format,
    ResultFormat,
    Verbose,
    cut,
    in_utc,
    print_json,
    print_line,
    print_table,
    screen,
    spinning,
    table_of,
)
from tidemark.cli.project import DAGS, PipelinesDir, chosen_pipelines
from tidemark.model.plain import amount, plain
from tidemark.views.status import ENDED, RegionStatus, TargetStatus, brief, total
from tidemark.views.verdict import Level, verdict_of

if TYPE_CHECKING:
    from tidemark.ledger.queries import Published
    from tidemark.settings.pipeline import Pipeline
    from tidemark.views.status import OutputStatus


SEQS_WIDTH = 60
"""Characters of a list of seqs."""


def status(
    region: Annotated[
        str | None, typer.Argument(metavar="[REGION]", help="A region's name or pipeline file.")
    ] = None,
    count: Annotated[
        bool, typer.Option("--count", help="Also count the target's rows (this scans the table).")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Update the view until Ctrl-C.")] = False,
    every: Annotated[
        float, typer.Option(min=0.2, max=3600, help="With --watch: seconds between two updates.")
    ] = 2.0,
    pipelines: PipelinesDir = DAGS,
    output: Format = ResultFormat.table,
    verbose: Verbose = False,
) -> None:
    """Show the state of a region, or, without REGION, one line for each.

    It shows the verdict first: red, unknown, behind, new, running or well, as the pages in Airflow.
    For each partition it shows the ledger's offset (the truth), Kafka's group offset (its mirror),
    the end of the log, lag = end - ledger, drift = Kafka - ledger. Offsets are the next to read.
    For the target it shows the rows that the ledger moved there and, with --count, the rows that
    are there. For an output topic it shows the newest sent batch and the unsent batches.

    `tidemark mirror` repairs drift of Kafka. Drift of the target means that somebody else writes
    or deletes there: `tidemark verify` names the rows. Exits with 1 if Kafka or Postgres did not
    answer.

    --watch redraws state, lag, throughput, members and batches every few seconds; into a pipe it
    writes a line for each region. Ctrl-C ends it, with 0.

      tidemark status
      tidemark status flights --count
      tidemark status flights --watch
      tidemark status flights -o json | jq .lag
    """
    if watch:
        _watch(region, pipelines, every, count=count, output=output)
        return
    faults: list[str] = []
    with spinning("reading the ledger and Kafka"):
        wanted = chosen_pipelines(region, pipelines, faults)
        found = statuses_of(wanted, count=count)
    tell_no_pipelines(faults)
    _print(found, output, is_one=region is not None)
    _tell_problems(found)
    if any(one.problem for one in found):
        raise typer.Exit(1)


def _print(found: list[RegionStatus], output: ResultFormat, *, is_one: bool) -> None:
    if output is ResultFormat.json:
        shapes = [_shape(one) for one in found]
        print_json(shapes[0] if is_one else shapes)
    elif is_one:
        _print_region(found[0])
    else:
        _print_regions(found)


def _tell_problems(found: list[RegionStatus]) -> None:
    """Each once: what is away is away for all regions of a connection."""
    regions: dict[str, list[str]] = {}
    for one in found:
        if one.problem:
            regions.setdefault(one.problem, []).append(one.region)
    for problem, names in regions.items():
        tell(f"{', '.join(names)}: {problem}", "red")


def _watch(
    region: str | None, folder: Path, every: float, *, count: bool, output: ResultFormat
) -> None:

    if count or output is ResultFormat.json:
        raise WatchHasNoOutput
    wanted = chosen_pipelines(region, folder, [])
    try:
        watch(wanted, statuses_of, every)
    except KeyboardInterrupt as stop:
        if isinstance(stop, Terminated):
            raise


def _shape(one: RegionStatus) -> dict[str, object]:
    partitions = [
        plain(partition) | {"lag": partition.lag, "drift": partition.drift}
        for partition in one.partitions
    ]
    derived = {"lag": one.lag, "drifting": one.drifting, "partitions": partitions}
    derived["verdict"] = plain(verdict_of(one))
    derived["targets"] = [plain(target) | {"drift": target.drift} for target in one.targets]
    shape: dict[str, object] = plain(one) | derived
    return shape


def _print_regions(found: list[RegionStatus]) -> None:
    columns = (
        "region", "verdict", "state", "epoch", "head", "lag", "drifting", "rows", "resets", "run",
    )  # fmt: skip
    print_table(columns, [_line(one) for one in found])


def _line(r: RegionStatus) -> tuple[object, ...]:
    rows = total(target.ledger for target in r.targets)
    return (
        r.region, verdict_of(r).level, r.state, r.epoch, r.head_seq, r.lag, r.drifting, rows,
        r.consecutive_resets, r.run_id,
    )  # fmt: skip


def _print_region(one: RegionStatus) -> None:
    for name, value in _facts(one):
        if value is not None:
            print_line(f"{name:14}{value}")
    if one.partitions:
        print_line("")
        print_table(
            ("partition", "ledger", "Kafka", "end", "lag", "drift"),
            [
                (str(p.topic_partition), p.ledger, p.kafka, p.end, p.lag, p.drift)
                for p in one.partitions
            ],
        )


def _facts(one: RegionStatus) -> Iterator[tuple[str, Any]]:
    """What is said of the region as a whole; None is left out."""
    yield "region", one.region
    yield "verdict", _verdict(one)
    yield "state", one.state
    yield "epoch", one.epoch
    yield "head", one.head_seq
    if one.oldest_seq is not None:
        yield "restorable", f"from checkpoint {one.oldest_seq}" if one.oldest_seq else "all"
    yield "unpublished", one.unpublished_seq
    yield "complete at", in_utc(one.complete_at) if one.complete_at else None
    yield "accepted lost", cut(", ".join(one.accepted), SEQS_WIDTH) or None
    yield "newest batch", _of_batch(one.newest) if one.newest else None
    yield "resets", f"{one.consecutive_resets} in a row" if one.consecutive_resets else None
    yield "run", one.run_id
    yield "reason", one.reason
    yield "overrides", ", ".join(one.overrides) or None
    for remark in one.remarks:
        yield "remark", remark
    for member in one.members:
        yield "member", f"{member.number} {member.name}: {member.state}"
    for target in one.targets:
        yield "target", _of_target(target)
    yield "output", _of_output(one.output) if one.output else None
    yield "dead letters", f"{one.dead_letters:,}" if one.dead_letters else None
    yield "lag", one.lag


def _verdict(one: RegionStatus) -> str:
    """Level, sentence and remedy; what could not be asked is told at the end, with its own."""
    judged = verdict_of(one)
    if judged.level is Level.unknown:
        return f"{judged.level}: Kafka or Postgres gave no answer, see the error below."
    return f"{judged.level}: {judged.sentence} {judged.remedy}".rstrip()


def _of_output(output: "OutputStatus") -> str:
    if output.sent_seq is None:
        return f"{output.topics.named}: what was sent is UNKNOWN"
    batches, records = output.unsent_batches or 0, amount(output.unsent_records or 0, "record")
    left = f"{amount(batches, 'batch')} ({records}) {'is' if batches == 1 else 'are'} not sent"
    told = left if output.unsent_batches else "nothing is unsent"
    seqs = cut(", ".join(map(str, output.withheld_seqs)), SEQS_WIDTH)
    withheld = f", never to be sent: {seqs}" if seqs else ""
    return f"{output.topics.named}: sent up to batch {output.sent_seq}, {told}{withheld}"


def _of_batch(newest: "Published") -> str:
    size = f"{newest.records:,} records"
    if newest.sized_by is None or newest.drain_seconds is None:
        return size
    times = f"drained in {newest.drain_seconds:.1f} s, published in {newest.publish_seconds:.1f} s"
    return f"{size}, bound by {newest.sized_by.replace('_', ' ')}; {times}"


def _of_target(target: TargetStatus) -> str:
    since = f" since checkpoint {target.since_seq}" if target.since_seq else ""
    told = f"{target.table}, {amount(target.ledger, 'row')} by the ledger{since}"
    if target.counted is None:
        return told
    drift = f", {target.drift:+} DRIFT" if target.drift else ""
    return f"{told}, {target.counted} counted{drift}"


PACE_SECONDS = 60.0
"""Throughput is that of the last minute: batches come in steps."""

MOST_PARTITIONS = 10
"""Of one region, those with the most lag."""

Look = Callable[[Sequence["Pipeline"]], list[RegionStatus]]
Show = Callable[[list["StatusView"]], None]


@dataclass(slots=True)
class Pace:
    """How fast the ledger passes offsets, from looks at it."""

    looks: deque[tuple[float, int]] = field(default_factory=deque)

    def after(self, now: float, passed: int) -> float | None:
        """Offsets a second over the last minute; None at first, and after a rewind."""
        if self.looks and passed < self.looks[-1][1]:
            self.looks.clear()
        self.looks.append((now, passed))
        while now - self.looks[0][0] > PACE_SECONDS:
            self.looks.popleft()
        began, before = self.looks[0]
        return (passed - before) / (now - began) if now > began else None


@dataclass(frozen=True, slots=True)
class StatusView:
    """A region at one look."""

    status: RegionStatus
    pace: float | None
    """Offsets a second."""

    @property
    def left_s(self) -> int | None:
        """Seconds until nothing is left, at this pace."""
        return int(self.status.lag / self.pace) if self.status.lag and self.pace else None

    @property
    def at_work(self) -> int:
        """Members that have not ended."""
        return sum(one.state not in ENDED for one in self.status.members)


def watch(pipelines: "Sequence[Pipeline]", look: Look, every: float) -> NoReturn:
    """Look and show every so many seconds; only Ctrl-C, a signal or a defect ends it."""
    paces = {one.region: Pace() for one in pipelines}
    with _showing(every, alone=len(pipelines) == 1) as show:
        while True:
            show([_seen(one, paces[one.region]) for one in look(pipelines)])
            time.sleep(every)


def _seen(status: RegionStatus, pace: Pace) -> StatusView:
    if not status.partitions:
        return StatusView(status, None)
    return StatusView(
        status, pace.after(time.monotonic(), sum(one.ledger for one in status.partitions))
    )


@contextmanager
def _showing(every: float, *, alone: bool) -> Iterator[Show]:
    """A view that is drawn anew; into a pipe a line for each region at each look."""
    if not sys.stdout.isatty():
        yield _print_lines
        return
    from rich.live import Live

    with Live(console=screen(), auto_refresh=False, vertical_overflow="ellipsis") as live:
        yield lambda found: live.update(_view(found, every, alone=alone), refresh=True)


def _print_lines(found: list[StatusView]) -> None:
    for one in found:
        print_line(line(one))
    sys.stdout.flush()


def line(one: StatusView) -> str:
    """One look at a region, for a log."""
    status = one.status
    if status.problem:
        return f"{_now()} {status.region}: {status.problem}"
    pace = "" if one.pace is None else f", {one.pace:.0f} offsets/s"
    members = amount(one.at_work, "member")
    return (
        f"{_now()} {status.region}: {status.state}, checkpoint {status.head_seq or 0},"
        f" lag {'unknown' if status.lag is None else status.lag}{pace}, {members}"
    )


def _view(found: list[StatusView], every: float, *, alone: bool) -> Any:
    from rich.console import Group
    from rich.text import Text

    parts: list[Any] = [table_of(COLUMNS, [_row(one) for one in found])]
    if alone:
        parts += _details(found[0].status)
    parts += [Text(f"{one.status.region}: {one.status.problem}", style="red")
              for one in found if one.status.problem]  # fmt: skip
    parts.append(Text(f"{_now()}, every {every:g} s; Ctrl-C ends it", style="dim"))
    return Group(*parts)


COLUMNS = ("region", "state", "epoch", "checkpoint", "unpublished", "lag", "offsets/s", "left",
           "members", "newest batch", "dead letters", "resets")  # fmt: skip


def _row(one: StatusView) -> tuple[object, ...]:
    r = one.status
    batch = amount(r.newest.rows, "row") if r.newest else None
    pace = None if one.pace is None else round(one.pace)
    left = None if one.left_s is None else f"{one.left_s} s"
    return (
        r.region, r.state, r.epoch, r.head_seq, r.unpublished_seq, r.lag, pace, left,
        one.at_work, batch, r.dead_letters, r.consecutive_resets,
    )  # fmt: skip


def _details(status: RegionStatus) -> Iterator[Any]:
    """Members, and the partitions that are furthest behind."""
    if status.members:
        columns = ("member", "state", "partitions", "drain ms", "seconds ago")
        yield table_of(
            columns,
            [
                (m.name, m.state, brief(m.partitions), m.drain_ms, int(m.age))
                for m in status.members
            ],
        )
    worst = sorted(status.partitions, key=lambda one: -(one.lag or 0))[:MOST_PARTITIONS]
    if worst:
        yield table_of(
            ("partition", "ledger", "end", "lag", "drift"),
            [(str(p.topic_partition), p.ledger, p.end, p.lag, p.drift) for p in worst],
        )


def _now() -> str:
    return time.strftime("%H:%M:%S")
