"""Values as they are shown: in JSON, as amounts and ages, without power over a terminal.

And times as people write them.
"""

import base64
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from math import isfinite, isnan
from typing import Any


def plain(value: object) -> Any:
    """The value in JSON's own types; dataclasses by their fields, bytes as base64.

    Keys are texts, so offsets are found by `topic[0]`; so are the numbers that JSON lacks.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(one) for one in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return number(value)
    return value.isoformat() if isinstance(value, datetime) else str(value)


def number(value: Any) -> Any:
    """The value; of NaN and the infinities, which JSON lacks, their names as Postgres has them."""
    if not isinstance(value, float) or isfinite(value):
        return value
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def amount(count: int, one: str) -> str:
    """`1 batch`, `2,000 batches`: `one` is the word for one of them."""
    if count == 1:
        return f"1 {one}"
    return f"{count:,} {one}{'es' if one.endswith('ch') else 's'}"


def age(seconds: float) -> str:
    """In two units at most: 45 s, 12 min, 3 h 5 min, 2 d 4 h."""
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole} s"
    minutes, hours = whole // 60, whole // 3600
    if minutes < 120:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def moment(written: datetime | str) -> datetime:
    """The time, in ISO 8601 if it is a text; UTC without a zone.

    Raises:
        ValueError: it is no time.
    """
    found = datetime.fromisoformat(written) if isinstance(written, str) else written
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def inert(text: object) -> str:
    r"""The text without power over a terminal: what is not printable is escaped (`\x1b`)."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))
