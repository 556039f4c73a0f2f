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
    label = f"rows a minute by half hours of the last day: {rate(rows)}"
    return _SPARK.format(WIDTH, HEIGHT, label, label, bars)


def rate(rows: Sequence[int]) -> str:
    """Rows a minute in the newest half hour, and in the best one."""
    most = max(rows, default=0)
    if not most:
        return "no rows in the last day"
    return f"{_a_minute(rows[-1])} now, {_a_minute(most)} at most"


def _a_minute(rows: int) -> str:
    """What is not nothing is not told as 0."""
    return "<1" if 0 < rows < MINUTES else f"{rows // MINUTES:,}"


def _height(count: int, most: int) -> float:
    """What is not nothing can be seen."""
    return max(1.5, count / most * HEIGHT) if count else 0.0
