"""Pages from their templates: what they are given is text, never markup, but for our own SVG.

Dead letters are foreign data: decoded as far as they can be, never markup.
"""

import base64
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from itertools import accumulate
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from tidemark import __version__
from tidemark.ledger.history import ShownDeadLetter
from tidemark.model.plain import age, amount, plain

_FRAMED = 5
"""Bytes of a schema id: a zero, then the id."""

MOST_SHOWN = 256 << 10
"""Bytes that the records of a page's dead letters take, as markup; each has its share."""

_DEEPEST = 20
"""Levels of JSON that are shown as such: each one indents all that it holds."""

_FOREIGN = ("key", "value", "refused_rows")


def fitting(dead_letters: Sequence[ShownDeadLetter]) -> list[dict[str, Any]]:
    """What is shown of each: no record takes the room of another."""
    return [_fitting(shown(one), MOST_SHOWN // len(dead_letters)) for one in dead_letters]


def _fitting(told: dict[str, Any], room: int) -> dict[str, Any]:
    """The same; if it is too long not as JSON; if still, without the record."""
    if _cost(told) <= room:
        return told
    plain = told | {name: _but_json(told[name]) for name in ("key", "value")}
    if _cost(plain) <= room:
        return plain
    return told | dict.fromkeys(_FOREIGN) | {"is_left_out": True}


def _but_json(told: dict[str, Any] | None) -> dict[str, Any] | None:
    return told and {name: value for name, value in told.items() if name != "json"}


def shown(dead_letter: ShownDeadLetter) -> dict[str, Any]:
    """All that is shown of it, in JSON's own types: for the page, and for its copy as JSON."""
    return {
        "seq": dead_letter.seq,
        "published_at": plain(dead_letter.published_at),
        "topic": dead_letter.topic,
        "partition": dead_letter.partition,
        "offset": dead_letter.offset,
        "timestamp_ms": dead_letter.timestamp_ms,
        "reason": dead_letter.reason,
        "detail": dead_letter.detail,
        "key": _shown_bytes(dead_letter.key, dead_letter.key_bytes),
        "value": _shown_bytes(dead_letter.value, dead_letter.value_bytes),
        "refused_rows": _parsed(dead_letter.refused_rows),
        "whole_bytes": dead_letter.whole_bytes,
        "is_left_out": False,
    }


def readable(told: dict[str, Any] | None) -> str:
    """A key or value for eyes."""
    if told is None:
        return "null"
    cut = f" … ({amount(told['bytes'], 'byte')})" if told["is_cut"] else ""
    if "json" in told:
        return json.dumps(told["json"], indent=1, ensure_ascii=False)
    schema = f"schema id {told['schema_id']}, " if "schema_id" in told else ""
    text = told.get("text")
    return f"{schema}base64 {told['base64']}{cut}" if text is None else f"{text}{cut}"


def _shown_bytes(data: bytes | None, size: int | None) -> dict[str, Any] | None:
    """JSON where it is, else text, else base64 with the id of its schema."""
    if data is None or size is None:
        return None
    told: dict[str, Any] = {"bytes": size, "is_cut": len(data) < size}
    text = _text(data, is_cut=told["is_cut"])
    if text is None:
        told["base64"] = base64.b64encode(data).decode()
        if data[:1] == b"\0" and len(data) >= _FRAMED:
            told["schema_id"] = int.from_bytes(data[1:_FRAMED])
        return told
    found = _parsed(text)
    return told | ({"text": text} if found is None else {"text": text, "json": found})


def _cost(told: dict[str, Any]) -> int:
    """Bytes of its markup, about: once for eyes, and once to be copied."""
    shapes = (*(readable(told[name]) for name in ("key", "value")), as_json(told["refused_rows"]))
    return sum(len(escape(text).encode()) for text in (*shapes, as_json(told)))


def as_json(value: Any) -> str:
    """For a person to read, or to copy."""
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False)


def _text(data: bytes, *, is_cut: bool) -> str | None:
    """UTF-8 without control characters; a cut may go through a character."""
    try:
        text = data.decode(errors="ignore" if is_cut else "strict")
    except UnicodeDecodeError:
        return None
    return text if all(c.isprintable() or c in "\r\n\t" for c in text) else None


def _parsed(text: str | None) -> Any:
    if not text or _depth(text) > _DEEPEST:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _depth(text: str) -> int:
    """How deeply its brackets are nested, those in its texts included."""
    steps = ((one in "[{") - (one in "]}") for one in text)
    return max(accumulate(steps), default=0)


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
    "age": lambda seconds: _EMPTY if seconds is None else age(seconds),
    "seconds": _seconds,
    "time": _time,
    "as_json": as_json,
    "prose": _prose,
    "sparkline": sparkline,
    "rate": rate,
}
_environment.globals["version"] = __version__
