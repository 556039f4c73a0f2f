"""Dead letters as they are shown: foreign data, decoded as far as it can be, never markup."""

import base64
import json
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from markupsafe import escape

from tidemark.ledger.past import ShownLetter
from tidemark.model.amount import amount
from tidemark.model.plain import plain

_FRAMED = 5
"""Bytes of a schema id: a zero, then the id."""

MOST_SHOWN = 256 << 10
"""Bytes that the records of a page's dead letters take, as markup; each has its share."""

_DEEPEST = 20
"""Levels of JSON that are shown as such: each one indents all that it holds."""

_FOREIGN = ("key", "value", "refused_rows")


def fitting(letters: Sequence[ShownLetter]) -> list[dict[str, Any]]:
    """What is shown of each: no record takes the room of another."""
    return [_fitting(shown(one), MOST_SHOWN // len(letters)) for one in letters]


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


def shown(letter: ShownLetter) -> dict[str, Any]:
    """All that is shown of it, in JSON's own types: for the page, and for its copy as JSON."""
    return {
        "seq": letter.seq,
        "published_at": plain(letter.published_at),
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp_ms": letter.timestamp_ms,
        "reason": letter.reason,
        "detail": letter.detail,
        "key": _told(letter.key, letter.key_bytes),
        "value": _told(letter.value, letter.value_bytes),
        "refused_rows": _parsed(letter.refused_rows),
        "whole_bytes": letter.whole_bytes,
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


def _told(data: bytes | None, size: int | None) -> dict[str, Any] | None:
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
