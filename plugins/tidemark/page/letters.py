"""Dead letters as they are shown: foreign data, decoded as far as it can be, never markup."""

import base64
import json
from typing import Any

from tidemark.ledger.past import ShownLetter
from tidemark.model.amount import amount
from tidemark.model.plain import plain

_FRAMED = 5
"""Bytes of a schema id: a zero, then the id."""


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


def _text(data: bytes, *, is_cut: bool) -> str | None:
    """UTF-8 without control characters; a cut may go through a character."""
    try:
        text = data.decode(errors="ignore" if is_cut else "strict")
    except UnicodeDecodeError:
        return None
    return text if all(c.isprintable() or c in "\r\n\t" for c in text) else None


def _parsed(text: str | None) -> Any:
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
