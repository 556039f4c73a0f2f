"""`tidemark status --watch`: where regions stand, again and again, until Ctrl-C."""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from tidemark.cli.output import brief, print_line, screen, table_of
from tidemark.model.amount import amount
from tidemark.operations.member_health import ENDED
from tidemark.operations.status import RegionStatus, place

if TYPE_CHECKING:
    from tidemark.settings.pipeline import Pipeline

PACE_SECONDS = 60.0
"""Throughput is that of the last minute: batches come in steps."""

MOST_PARTITIONS = 10
"""Of one region, those with the most lag."""

Look = Callable[["Pipeline"], RegionStatus]
Show = Callable[[list["Seen"]], None]


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
class Seen:
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
            show([_seen(look(one), paces[one.region]) for one in pipelines])
            time.sleep(every)


def _seen(status: RegionStatus, pace: Pace) -> Seen:
    if not status.partitions:
        return Seen(status, None)
    return Seen(status, pace.after(time.monotonic(), sum(one.ledger for one in status.partitions)))


@contextmanager
def _showing(every: float, *, alone: bool) -> Iterator[Show]:
    """A view that is drawn anew; into a pipe a line for each region at each look."""
    if not sys.stdout.isatty():
        yield _print_lines
        return
    from rich.live import Live

    with Live(console=screen(), auto_refresh=False, vertical_overflow="ellipsis") as live:
        yield lambda found: live.update(_view(found, every, alone=alone), refresh=True)


def _print_lines(found: list[Seen]) -> None:
    for one in found:
        print_line(line(one))
    sys.stdout.flush()


def line(one: Seen) -> str:
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


def _view(found: list[Seen], every: float, *, alone: bool) -> Any:
    from rich.console import Group
    from rich.text import Text

    parts: list[Any] = [table_of(COLUMNS, [_row(one) for one in found])]
    if alone:
        parts += _details(found[0].status)
    parts += [Text(f"{one.status.region}: {one.status.problem}", style="red")
              for one in found if one.status.problem]  # fmt: skip
    parts.append(Text(f"{_now()}, every {every:g} s; Ctrl-C ends it", style="dim"))
    return Group(*parts)


COLUMNS = ("region", "state", "epoch", "checkpoint", "at work", "lag", "offsets/s", "left",
           "members", "newest batch", "dead letters", "resets")  # fmt: skip


def _row(one: Seen) -> tuple[object, ...]:
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
            [(place(p), p.ledger, p.end, p.lag, p.drift) for p in worst],
        )


def _now() -> str:
    return time.strftime("%H:%M:%S")
