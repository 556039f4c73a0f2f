"""Draw what a run does while it drains some batches, as SVG, from the spans of its trace.

`OTEL_TRACES_EXPORTER=console tidemark run FILE > trace.txt` writes the spans; then
`python -m scripts.docs.trace_picture "before=trace.txt" "now=other.txt" > picture.svg` draws a lane
for each step, for each file as many milliseconds, from where its fifth batch is drained.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from html import escape
from pathlib import Path

STEPS = {
    "drain": "#4c78a8",
    "stage": "#9ecae9",
    "publish": "#f58518",
    "mirror": "#b279a2",
    "plan": "#54a24b",
}
"""As they are drawn, from the top; each with its colour."""
FIRST = 4
"""Batches before it pay for what every process does once."""
MILLISECONDS = 1500
WIDTH, LEFT, LANE, GAP = 960, 80, 20, 34


@dataclass(frozen=True, slots=True)
class Span:
    """A step, in milliseconds from where the picture begins."""

    name: str
    begin: float
    end: float


def spans(file: str) -> list[Span]:
    """The steps of a trace as the console exporter has written it.

    Raises:
        SystemExit: the run drained too few batches.
    """
    text = Path(file).read_text()
    found = [one for one in _objects(text) if one.get("name") in STEPS]
    drains = sorted(_ms(one["start_time"]) for one in found if one["name"] == "drain")
    if len(drains) <= FIRST:
        raise SystemExit(
            f"{file}: {len(drains)} batches were drained; more than {FIRST} are needed"
        )
    zero = drains[FIRST]
    cut = [
        Span(one["name"], _ms(one["start_time"]) - zero, _ms(one["end_time"]) - zero)
        for one in found
    ]
    return [one for one in cut if one.end > 0 and one.begin < MILLISECONDS]


def _objects(text: str) -> Iterator[dict[str, str]]:
    decoder, at = json.JSONDecoder(), text.find("{")
    while at >= 0:
        one, end = decoder.raw_decode(text, at)
        yield one
        at = text.find("{", end)


def _ms(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp() * 1000


def picture(traces: dict[str, list[Span]]) -> str:
    """A part for each trace, one below the other, on the same scale."""
    height = len(traces) * (len(STEPS) * LANE + GAP) + LANE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
    ]
    top = 0
    for name, found in traces.items():
        parts.append(f'<text x="4" y="{top + 18}" font-weight="bold">{escape(name)}</text>')
        parts += _lanes(found, top + GAP - LANE // 2)
        top += len(STEPS) * LANE + GAP
    parts += [
        f'<text x="{_x(ms)}" y="{height - 4}" text-anchor="middle">{ms} ms</text>'
        for ms in range(0, MILLISECONDS, 250)
    ]
    return "\n".join([*parts, "</svg>\n"])


def _lanes(found: list[Span], top: int) -> Iterator[str]:
    for number, (step, colour) in enumerate(STEPS.items()):
        y = top + number * LANE
        yield f'<text x="4" y="{y + 14}">{step}</text>'
        for one in found:
            if one.name == step:
                begin, end = _x(max(one.begin, 0)), _x(min(one.end, MILLISECONDS))
                yield (
                    f'<rect x="{begin:.1f}" y="{y + 2}" width="{max(end - begin, 1):.1f}"'
                    f' height="{LANE - 4}" fill="{colour}">'
                    f"<title>{step}, {one.end - one.begin:.0f} ms</title></rect>"
                )


def _x(ms: float) -> float:
    return LEFT + ms * (WIDTH - LEFT - 30) / MILLISECONDS


if __name__ == "__main__":
    given = (argument.split("=", 1) for argument in sys.argv[1:])
    sys.stdout.write(picture({name: spans(file) for name, file in given}))
