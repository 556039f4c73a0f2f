"""Draw the newest runs of a region as SVG, from its ledger: `python -m scripts.run_picture NAME`.

A lane is a driver; a box is a batch that it had a part in, pale if a rewind took it back. The
picture in the README is made by this from the ledger that `make demo` leaves:
`python -m scripts.run_picture flights > docs/run.svg`, before `make down`.
"""

import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from xml.sax.saxutils import escape

import psycopg2

from tidemark.cli.project import connection
from tidemark.postgres.parameters import postgres_parameters

WIDTH, LEFT, RIGHT, LANE, TOP = 960, 170, 30, 34, 64
EPOCHS = 4
"""As many as the demonstration makes: a run, its reset, a rewind, the next run."""

MEMBERS = """
SELECT m.member, m.epoch, m.name, m.state, m.joined_at, m.seen_at FROM tidemark.members m
WHERE m.region = %(region)s
  AND m.epoch > (SELECT epoch FROM tidemark.regions WHERE region = %(region)s) - %(epochs)s
ORDER BY m.member
"""
SHARES = """
SELECT DISTINCT c.member, b.seq, b.state, greatest(b.planned_at, m.joined_at), b.published_at,
  b.rows_moved
FROM tidemark.batches b JOIN tidemark.contributions c USING (region, seq)
JOIN tidemark.members m USING (member)
WHERE b.region = %(region)s AND b.state <> 'planned'
  AND b.epoch > (SELECT epoch FROM tidemark.regions WHERE region = %(region)s) - %(epochs)s
ORDER BY b.seq, c.member
"""
RESETS = """
SELECT started_at, discarded_seqs, from_seq, to_seq FROM tidemark.resets WHERE region = %(region)s
  AND epoch > (SELECT epoch FROM tidemark.regions WHERE region = %(region)s) - %(epochs)s
ORDER BY reset_id
"""

STYLE = """
  text { font: 12px ui-sans-serif, system-ui, sans-serif; fill: #24292f; }
  .small { font-size: 10px; fill: #57606a; } .box text { fill: #ffffff; }
  .driver { stroke: #afb8c1; stroke-width: 3; } .batch { fill: #1a7f5a; }
  .rewound { fill: #a7c9bb; } .died { stroke: #cf222e; stroke-width: 3; }
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


@dataclass(frozen=True, slots=True)
class Driver:
    """A member of the ledger."""

    member: int
    epoch: int
    name: str
    state: str
    joined: datetime
    seen: datetime


@dataclass(frozen=True, slots=True)
class Share:
    """A member's part in a batch; a batch of several members has several."""

    member: int
    seq: int
    state: str
    planned: datetime
    """When it was planned, or when the member joined, if that was later."""
    published: datetime
    rows: int
    """Of the whole batch."""


@dataclass(frozen=True, slots=True)
class Reset:
    """A reset or a rewind."""

    started: datetime
    discarded: int | None
    from_seq: int
    to_seq: int

    def __str__(self) -> str:
        if self.to_seq < self.from_seq:
            return f"rewind to checkpoint {self.to_seq}"
        return "reset" if self.discarded is None else f"reset, batch {self.discarded} discarded"


def picture(parameters: dict[str, Any], region: str) -> str:
    """The SVG of the region's newest epochs."""
    values = {"region": region, "epochs": EPOCHS}
    with closing(psycopg2.connect(**parameters)) as asked, asked.cursor() as cursor:
        members, shares, resets = (
            (cursor.execute(statement, values), cursor.fetchall())[1]
            for statement in (MEMBERS, SHARES, RESETS)
        )
    if not members:
        raise SystemExit(f"region {region} has no run to draw")
    return drawn(
        region,
        [Driver(*row) for row in members],
        [Share(*row) for row in shares],
        [Reset(*row) for row in resets],
    )


def drawn(region: str, drivers: list[Driver], shares: list[Share], resets: list[Reset]) -> str:
    """The SVG; there is at least one driver."""
    ends = [d.seen for d in drivers] + [s.published for s in shares] + [r.started for r in resets]
    first = min(driver.joined for driver in drivers)
    scale = Scale(first, max((max(ends) - first).total_seconds(), 1.0))
    lanes = {driver.member: TOP + LANE * place for place, driver in enumerate(drivers)}
    height = TOP + LANE * len(drivers) + 40
    parts = [
        *_resets(resets, scale, height),
        *_drivers(drivers, shares, scale, lanes),
        *_shares(shares, scale, lanes),
        *_axis(scale, height),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' aria-label="Drivers, batches and resets of region {escape(region)}">\n'
        f"<style>{STYLE}</style>\n"
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n'
        f'<text x="12" y="22">region {escape(region)}: {_summary(drivers, shares)}</text>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _summary(drivers: list[Driver], shares: list[Share]) -> str:
    published = {share.seq: share.rows for share in shares if share.state == "published"}
    return f"{sum(published.values()):,} rows in {len(published)} batches, {len(drivers)} drivers"


def _drivers(
    drivers: list[Driver], shares: list[Share], scale: Scale, lanes: dict[int, int]
) -> Iterator[str]:
    for driver in drivers:
        y = lanes[driver.member]
        own = [share.published for share in shares if share.member == driver.member]
        x = scale.x(max([driver.seen, *own]))
        epoch = f'<tspan class="small">epoch {driver.epoch}</tspan>'
        yield f'<text x="12" y="{y + 4}">{escape(driver.name)} {epoch}</text>'
        yield f'<line class="driver" x1="{scale.x(driver.joined)}" x2="{x}" y1="{y}" y2="{y}"/>'
        if driver.state != "done":
            yield f'<path class="died" d="M{x - 5} {y - 5}l10 10m0 -10l-10 10"/>'


def _shares(shares: list[Share], scale: Scale, lanes: dict[int, int]) -> Iterator[str]:
    for share in shares:
        x, y = scale.x(share.planned), lanes[share.member] - 10
        width = round(max(scale.x(share.published) - x - 1, 2), 1)
        kind = "batch" if share.state == "published" else "rewound"
        title = f"batch {share.seq}: {share.rows:,} rows"
        yield (
            f'<g class="box"><title>{title}</title><rect class="{kind}" x="{x}" y="{y}"'
            f' width="{width}" height="20" rx="2"/>{_label(share.seq, x, y, width)}</g>'
        )


def _label(seq: int, x: float, y: int, width: float) -> str:
    fits = width > 12 + 6 * len(str(seq))
    return f'<text x="{x + 3}" y="{y + 14}">{seq}</text>' if fits else ""


def _resets(resets: list[Reset], scale: Scale, height: int) -> Iterator[str]:
    for place, reset in enumerate(resets):
        x, y = scale.x(reset.started), 42 - 12 * (place % 2)  # neighbours do not cover each other
        yield f'<line class="reset" x1="{x}" x2="{x}" y1="{y + 4}" y2="{height - 34}"/>'
        yield f'<text class="small" x="{x}" y="{y}" text-anchor="middle">{reset}</text>'


def _axis(scale: Scale, height: int) -> Iterator[str]:
    step = next(s for s in (1, 2, 5, 10, 20, 60, 120, 600, 3600, 86400) if scale.seconds / s <= 12)
    for number in range(int(scale.seconds // step) + 1):
        share = number * step / scale.seconds
        x = round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)
        text = f'<text class="small" x="{x}" y="{height - 12}" text-anchor="middle">'
        yield f"{text}{number * step} s</text>"


if __name__ == "__main__":
    region_name = sys.argv[1] if len(sys.argv) > 1 else "flights"
    warehouse = postgres_parameters(connection("tidemark_warehouse"))
    sys.stdout.write(picture(warehouse, region_name))
