"""Draw the newest runs of a region as SVG, from its ledger: `python -m scripts.run_picture NAME`.

A lane is a driver; a box is a batch that it published. The picture in the README is made by this
from the ledger that `make demo` leaves.
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
from tidemark.connections import postgres_parameters

WIDTH, LEFT, RIGHT, LANE, TOP = 960, 150, 30, 34, 64
EPOCHS = 3
"""As many as the demonstration makes: a run, its reset, the next run."""

MEMBERS = """
SELECT m.member, m.epoch, m.name, m.state, m.joined_at, m.seen_at FROM tidemark.members m
WHERE m.region = %(region)s
  AND m.epoch > (SELECT epoch FROM tidemark.regions WHERE region = %(region)s) - %(epochs)s
ORDER BY m.member
"""
BATCHES = """
SELECT c.member, b.seq, greatest(b.planned_at, m.joined_at), b.published_at, b.rows_moved
FROM tidemark.batches b JOIN tidemark.contributions c USING (region, seq)
JOIN tidemark.members m USING (member)
WHERE b.region = %(region)s AND b.state = 'published'
  AND b.epoch > (SELECT epoch FROM tidemark.regions WHERE region = %(region)s) - %(epochs)s
ORDER BY b.seq
"""
RESETS = """
SELECT started_at, discarded_seq FROM tidemark.resets WHERE region = %(region)s
  AND epoch > (SELECT epoch FROM tidemark.regions WHERE region = %(region)s) - %(epochs)s
ORDER BY reset_id
"""

STYLE = """
  text { font: 12px ui-sans-serif, system-ui, sans-serif; fill: #24292f; }
  .small { font-size: 10px; fill: #57606a; } .box text, .white { fill: #ffffff; }
  .driver { stroke: #afb8c1; stroke-width: 3; } .batch { fill: #1a7f5a; }
  .died { stroke: #cf222e; stroke-width: 3; } .reset { stroke: #9a6700; stroke-dasharray: 4 3; }
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


def picture(parameters: dict[str, Any], region: str) -> str:
    """The SVG of the region's newest epochs."""
    values = {"region": region, "epochs": EPOCHS}
    with closing(psycopg2.connect(**parameters)) as asked, asked.cursor() as cursor:
        members, batches, resets = (
            (cursor.execute(statement, values), cursor.fetchall())[1]
            for statement in (MEMBERS, BATCHES, RESETS)
        )
    if not members:
        raise SystemExit(f"region {region} has no run to draw")
    ends = [row[5] for row in members] + [row[3] for row in batches] + [row[0] for row in resets]
    first = min(row[4] for row in members)
    scale = Scale(first, max((max(ends) - first).total_seconds(), 1.0))
    lanes = {row[0]: TOP + LANE * place for place, row in enumerate(members)}
    height = TOP + LANE * len(members) + 40
    parts = [
        *_resets(resets, scale, height),
        *_drivers(members, batches, scale, lanes),
        *_batches(batches, scale, lanes),
        *_axis(scale, height),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' aria-label="Drivers, batches and resets of region {escape(region)}">\n'
        f"<style>{STYLE}</style>\n"
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n'
        f'<text x="12" y="22">region {escape(region)}: {sum(row[4] for row in batches):,} rows in'
        f" {len(batches)} batches, {len(members)} drivers</text>\n"
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _drivers(
    members: list[Any], batches: list[Any], scale: Scale, lanes: dict[int, int]
) -> Iterator[str]:
    for member, epoch, name, state, joined, seen in members:
        y = lanes[member]
        last = max([seen, *(row[3] for row in batches if row[0] == member)])
        label = escape(name.replace("drain[0] ", ""))
        yield f'<text x="12" y="{y + 4}">{label} <tspan class="small">epoch {epoch}</tspan></text>'
        yield (
            f'<line class="driver" x1="{scale.x(joined)}" x2="{scale.x(last)}" y1="{y}" y2="{y}"/>'
        )
        if state != "done":
            x = scale.x(last)
            yield f'<path class="died" d="M{x - 5} {y - 5}l10 10m0 -10l-10 10"/>'


def _batches(batches: list[Any], scale: Scale, lanes: dict[int, int]) -> Iterator[str]:
    for member, seq, planned, published, rows in batches:
        x, y = scale.x(planned), lanes[member] - 10
        width = round(max(scale.x(published) - x - 1, 2), 1)
        yield (
            f'<g class="box"><title>batch {seq}: {rows:,} rows</title><rect class="batch" x="{x}"'
            f' y="{y}" width="{width}" height="20" rx="2"/>'
            + (
                f'<text x="{x + 3}" y="{y + 14}">{seq}</text>'
                if width > 12 + 6 * len(str(seq))
                else ""
            )
            + "</g>"
        )


def _resets(resets: list[Any], scale: Scale, height: int) -> Iterator[str]:
    for started, discarded in resets:
        x = scale.x(started)
        text = "reset" if discarded is None else f"reset, batch {discarded} discarded"
        yield f'<line class="reset" x1="{x}" x2="{x}" y1="46" y2="{height - 34}"/>'
        yield f'<text class="small" x="{x}" y="42" text-anchor="middle">{text}</text>'


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
