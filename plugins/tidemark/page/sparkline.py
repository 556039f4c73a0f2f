"""A sparkline: what a region published in each half hour of the last day."""

from collections.abc import Sequence

from markupsafe import Markup

WIDTH, HEIGHT = 144, 24
MINUTES = 30
"""Of each part."""

_BAR = Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>')
_SPARK = Markup(
    '<svg class="spark" viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>{}</svg>'
)


def sparkline(rows: Sequence[int]) -> Markup:
    """Bars of rows a minute, the newest half hour on the right; in words for who can't see it."""
    most = max(rows, default=0)
    width = WIDTH / max(len(rows), 1)
    bars = Markup("").join(
        _BAR.format(number * width, HEIGHT - height, width - 0.6, height)
        for number, count in enumerate(rows)
        if (height := _height(count, most))
    )
    label = (
        f"rows a minute by half hours of the last day: {rows[-1] // MINUTES:,} in the newest,"
        f" {most // MINUTES:,} at most"
        if most
        else "no rows in the last day"
    )
    return _SPARK.format(WIDTH, HEIGHT, label, label, bars)


def _height(count: int, most: int) -> float:
    """What is not nothing can be seen."""
    return max(1.5, count / most * HEIGHT) if count else 0.0
