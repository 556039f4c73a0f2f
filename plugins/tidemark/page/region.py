"""All that the page of one region shows from the ledger: bounded, however long its past is.

The newest runs are drawn as SVG: a lane is a driver, a box is a batch. A box is pale if a rewind
took it back, and hollow while the batch is not published.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil
from typing import Any
from xml.sax.saxutils import escape

from tidemark.errors import TidemarkError
from tidemark.ledger.history import (
    Driver,
    PastReset,
    ReasonCount,
    Share,
    ShownDeadLetter,
    Standing,
    TimedBatch,
)
from tidemark.ledger.queries import Action, Completeness, LedgerQueries
from tidemark.ledger.starts import NO_STARTS, Starts, StartsLookup
from tidemark.ledger.timeline import Timeline
from tidemark.model.plain import amount
from tidemark.model.state import RegionState, Run
from tidemark.page.ledgers import LedgerAnswer, opened
from tidemark.page.question import Given
from tidemark.page.seen import SeenRegion

EPOCHS = 4
"""As many as the demonstration makes: a run, its reset, a rewind, the next run."""
LANES, SHARES, DRAWN_RESETS = 40, 600, 20
"""At most so many of each."""
NEAR = timedelta(minutes=1)
"""An older run is drawn too if so little time, or no more than those drawn took, lies between."""


@dataclass(frozen=True, slots=True)
class DrawnRuns:
    """What is drawn."""

    region: str
    drivers: list[Driver]
    shares: list[Share]
    resets: list[PastReset]
    now: datetime
    """By the ledger's clock: so far reaches what has not ended."""
    is_over: bool = True
    """Whether no run is open: a driver that never said that it was done has died."""


def newest(
    timeline: Timeline, region: str, epoch: int, now: datetime, *, is_over: bool = True
) -> DrawnRuns:
    """The newest epochs, but no run that lies too far back to be seen beside them."""
    first = epoch - EPOCHS + 1
    drivers = timeline.recent_drivers(region, first, LANES)
    first = first_near(drivers, epoch)
    shares = timeline.recent_shares(region, first, SHARES)
    return DrawnRuns(
        region=region,
        drivers=[one for one in drivers if one.epoch >= first],
        shares=shares[::-1],  # a newer one is drawn over an older
        resets=[one for one in timeline.recent_resets(region, DRAWN_RESETS) if one.epoch >= first],
        now=now,
        is_over=is_over,
    )


def first_near(drivers: list[Driver], epoch: int) -> int:
    """The oldest epoch that is drawn."""
    starts: dict[int, datetime] = {}
    ends: dict[int, datetime] = {}
    for one in drivers:
        starts[one.epoch] = min(starts.get(one.epoch, one.joined), one.joined)
        ends[one.epoch] = max(ends.get(one.epoch, one.seen), one.seen)
    epochs = sorted(starts, reverse=True)
    first = epochs[0] if epochs else epoch
    for older in epochs[1:]:
        span = max(ends.values()) - starts[first]
        if starts[first] - ends[older] > max(NEAR, span):
            break
        first = older
    return first


WIDTH, LEFT, RIGHT, LANE, TOP = 960, 170, 30, 34, 64
STYLE = """
  text { font: 12px ui-sans-serif, system-ui, sans-serif; fill: #24292f; }
  .small { font-size: 10px; fill: #57606a; } .box text { fill: #ffffff; }
  .ground { fill: #ffffff; }
  .driver { stroke: #afb8c1; stroke-width: 3; } .batch { fill: #1a7f5a; stroke: #ffffff; }
  .rewound { fill: #a7c9bb; } .died { stroke: #cf222e; stroke-width: 3; }
  .planned { fill: none; stroke: #1a7f5a; stroke-dasharray: 3 2; }
  .reset { stroke: #9a6700; stroke-dasharray: 4 3; }
"""


@dataclass(frozen=True, slots=True)
class Scale:
    """Time to place."""

    first: datetime
    seconds: float

    def x(self, moment: datetime) -> float:
        """The place of a moment."""
        share = (moment - self.first).total_seconds() / self.seconds
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)


def drawn(found: DrawnRuns, style: str = "") -> str:
    """The SVG; there is at least one driver. Without a style the page's own applies."""
    scale = _scale(found)
    lanes = {driver.member: TOP + LANE * place for place, driver in enumerate(found.drivers)}
    height = TOP + LANE * len(found.drivers) + 40
    shares = [share for share in found.shares if share.member in lanes]
    parts = [
        *_resets(found.resets, scale, height),
        *_drivers(found, scale, lanes),
        *_shares(shares, scale, lanes, found.now),
        *_deaths(found, scale, lanes),
        *_axis(scale, height),
    ]
    region = escape(found.region)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' aria-label="Drivers, batches and resets of region {region}">\n'
        + (f"<style>{style}</style>\n" if style else "")
        + f'<rect class="ground" width="{WIDTH}" height="{height}"/>\n'
        f'<text x="12" y="22">region {region}: {_summary(found)}</text>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _scale(found: DrawnRuns) -> Scale:
    """From the first driver's start to what happened last, but for resets long after it."""
    first = min(driver.joined for driver in found.drivers)
    last = max(driver.seen for driver in found.drivers)
    last = max([last, *(share.published or found.now for share in found.shares)])
    late = last + max((last - first) / 4, timedelta(seconds=1))
    ends = [last, *(min(reset.started_at, late) for reset in found.resets)]
    return Scale(first, max((max(ends) - first).total_seconds(), 1.0))


def _summary(found: DrawnRuns) -> str:
    published = {one.seq: one.rows or 0 for one in found.shares if one.state == "published"}
    rows, batches = amount(sum(published.values()), "row"), amount(len(published), "batch")
    return f"{rows} in {batches}, {amount(len(found.drivers), 'driver')}"


def _drivers(found: DrawnRuns, scale: Scale, lanes: dict[int, int]) -> Iterator[str]:
    for driver in found.drivers:
        y = lanes[driver.member]
        x = scale.x(_end(driver, found))
        epoch = f'<tspan class="small">epoch {driver.epoch}</tspan>'
        yield f'<text x="12" y="{y + 4}">{escape(driver.name)} {epoch}</text>'
        yield f'<line class="driver" x1="{scale.x(driver.joined)}" x2="{x}" y1="{y}" y2="{y}"/>'


def _deaths(found: DrawnRuns, scale: Scale, lanes: dict[int, int]) -> Iterator[str]:
    for driver in found.drivers:
        if _died(driver, found):
            x, y = scale.x(_end(driver, found)), lanes[driver.member]
            yield f'<path class="died" d="M{x - 5} {y - 5}l10 10m0 -10l-10 10"/>'


def _end(driver: Driver, found: DrawnRuns) -> datetime:
    """When it was last seen, or had a part in what was published."""
    own = [one.published for one in found.shares if one.member == driver.member]
    return max([driver.seen, *filter(None, own)])


def _died(driver: Driver, found: DrawnRuns) -> bool:
    """One that said that it failed; or that never said that it was done, and is not at work now."""
    if driver.state in ("done", "reset complete"):
        return False
    task = driver.name.partition(" try ")[0]
    newer = [one for one in found.drivers if one.member > driver.member]
    return (
        found.is_over
        or driver.state == "failed"
        or any(one.epoch > driver.epoch or one.name.partition(" try ")[0] == task for one in newer)
    )


def _shares(
    shares: list[Share], scale: Scale, lanes: dict[int, int], now: datetime
) -> Iterator[str]:
    for share in shares:
        x, y = scale.x(share.planned), lanes[share.member] - 10
        width = round(max(scale.x(share.published or now) - x - 1, 2), 1)
        kind = {"published": "batch", "rewound": "rewound"}.get(share.state, "planned")
        rows = "not published" if share.rows is None else amount(share.rows, "row")
        title = f"batch {share.seq}: {rows}{', rewound' if kind == 'rewound' else ''}"
        yield (
            f'<g class="box"><title>{title}</title><rect class="{kind}" x="{x}" y="{y}"'
            f' width="{width}" height="20" rx="2"/>{_label(share.seq, x, y, width)}</g>'
        )


def _label(seq: int, x: float, y: int, width: float) -> str:
    fits = width > 12 + 6 * len(str(seq))
    return f'<text x="{x + 3}" y="{y + 14}">{seq}</text>' if fits else ""


def _resets(resets: list[PastReset], scale: Scale, height: int) -> Iterator[str]:
    for place, reset in enumerate(resets):
        y = 42 - 12 * (place % 2)  # neighbours do not cover each other
        x = min(scale.x(reset.started_at), WIDTH - RIGHT)
        anchor = "end" if x > WIDTH - 200 else "middle"  # what it says fits in
        late = int((reset.started_at - scale.first).total_seconds() - scale.seconds)
        told = f"{reset}, {_later(late)} later" if late > 0 else str(reset)
        yield f'<line class="reset" x1="{x}" x2="{x}" y1="{y + 4}" y2="{height - 34}"/>'
        yield f'<text class="small" x="{x}" y="{y}" text-anchor="{anchor}">{told}</text>'


def _later(seconds: int) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def _axis(scale: Scale, height: int) -> Iterator[str]:
    steps, days = (1, 2, 5, 10, 20, 60, 120, 600, 3600), ceil(scale.seconds / 86400 / 12)
    step = next((s for s in steps if scale.seconds / s <= 12), days * 86400)
    for number in range(int(scale.seconds // step) + 1):
        share = number * step / scale.seconds
        x = round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)
        text = f'<text class="small" x="{x}" y="{height - 12}" text-anchor="middle">'
        yield f"{text}{number * step} s</text>"


RUNS, CHECKPOINTS, RESETS, DEAD_LETTERS = 20, 50, 20, 20


@dataclass(slots=True)
class RegionView:
    """A region at one moment; what is not known is empty."""

    standing: Standing | None = None
    state: RegionState | None = None
    problem: TidemarkError | None = None
    starts: Starts = NO_STARTS
    complete: Completeness | None = None
    picture: str | None = None
    """SVG."""
    runs: list[Run] = field(default_factory=list)
    batches: list[TimedBatch] = field(default_factory=list)
    resets: list[PastReset] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    reasons: list[ReasonCount] = field(default_factory=list)
    dead_letters: list[ShownDeadLetter] = field(default_factory=list)

    @property
    def ledger(self) -> LedgerAnswer:
        """What the verdict goes by."""
        return LedgerAnswer(self.standing, self.problem, self.starts)

    @property
    def oldest_seq(self) -> int:
        """The oldest checkpoint that a rewind can go back to."""
        return self.state.oldest_seq if self.state else 0

    @property
    def is_open(self) -> bool:
        """Whether a run is on."""
        return self.standing is not None and self.standing.state == "open"

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What rows are made with."""
        return self.state.fingerprint if self.state else {}


def region_view(
    seen: SeenRegion, given: Given, *, is_live: bool = False, shows_records: bool = False
) -> RegionView:
    """What the ledger says; a live look leaves out what changes seldom.

    Records are read only if they may be shown.
    """
    try:
        with opened(seen.pipeline.warehouse, given) as ledger:
            if ledger is None:
                return RegionView()
            starts = StartsLookup(ledger.engine).starts([seen.name]).get(seen.name, NO_STARTS)
            if not (state := ledger.known_region(seen.name)):
                return RegionView(starts=starts)
            timeline = Timeline(ledger.engine)
            view = _newest(timeline, seen.name, state)
            view.starts = starts
            view.complete = ledger.queries.completeness([seen.name]).get(seen.name)
            if not is_live:
                _add_past(view, timeline, ledger.queries, seen.name)
            if shows_records:
                view.dead_letters = timeline.newest_dead_letters(seen.name, DEAD_LETTERS)
            return view
    except TidemarkError as error:
        return RegionView(problem=error)


def _newest(timeline: Timeline, name: str, state: RegionState) -> RegionView:
    standing = next(iter(timeline.standings([name])), None)
    view = RegionView(standing, state, runs=timeline.past_runs(name, RUNS))
    now = LedgerQueries(timeline.engine).now()
    found = newest(timeline, name, state.epoch, now, is_over=not view.is_open)
    view.picture = drawn(found) if found.drivers else None
    return view


def _add_past(view: RegionView, timeline: Timeline, queries: LedgerQueries, name: str) -> None:
    view.batches = timeline.recent_batches(name, CHECKPOINTS)
    view.resets = timeline.recent_resets(name, RESETS)
    view.actions = queries.actions(name, RESETS)
    view.reasons = timeline.reasons_of_newest(name)
