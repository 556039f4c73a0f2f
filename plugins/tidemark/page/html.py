"""Pages from their templates: what they are given is text, never markup, but for our own SVG."""

from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tidemark import __version__
from tidemark.model.amount import amount
from tidemark.page.letters import as_json
from tidemark.page.sparkline import rate, sparkline

STATIC = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "charts.js": "text/javascript; charset=utf-8",
    "echarts.min.js": "text/javascript; charset=utf-8",
}
"""What the pages load, by name; there is nothing else to load."""

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_EMPTY = "–"


def page(name: str, **shown: Any) -> str:
    """The template, filled."""
    return _environment.get_template(name).render(shown)


@cache
def static(name: str) -> bytes:
    """The file."""
    return files("tidemark").joinpath("page", "static", name).read_bytes()


def _number(value: float | None) -> str:
    return _EMPTY if value is None else f"{value:,}"


def age(seconds: float | None) -> str:
    """Two units at most: 45 s, 12 min, 3 h 5 min, 2 d 4 h."""
    if seconds is None:
        return _EMPTY
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole} s"
    minutes, hours = whole // 60, whole // 3600
    if minutes < 120:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def _seconds(value: float | None) -> str:
    return _EMPTY if value is None else f"{value:,.1f}"


def _time(moment: datetime | None) -> Markup | str:
    """UTC; the script shows it in the time zone of Airflow's UI, and keeps UTC as its title."""
    if moment is None:
        return _EMPTY
    utc = moment.astimezone(UTC)
    told, exact = utc.strftime("%Y-%m-%d %H:%M:%S"), utc.isoformat(timespec="milliseconds")
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(exact, told, told)


def _prose(text: str) -> Markup:
    """Text in which `code` stands between backticks."""
    parts = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else part
        for number, part in enumerate(parts)
    )


_environment = Environment(
    loader=PackageLoader("tidemark.page"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters |= {
    "number": _number,
    "amount": amount,
    "age": age,
    "seconds": _seconds,
    "time": _time,
    "as_json": as_json,
    "prose": _prose,
    "sparkline": sparkline,
    "rate": rate,
}
_environment.globals["version"] = __version__
