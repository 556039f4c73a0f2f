"""Dead letters on the page: foreign data is shown as far as it can be read, and never acts."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tidemark.ledger.history import ReasonCount, ShownDeadLetter
from tidemark.page.html import MOST_SHOWN, fitting, page, readable, shown

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOSTILE = b'"><script>alert(1)</script>'


def dead_letter(value: bytes | None, size: int | None = None, **others: Any) -> ShownDeadLetter:
    found: dict[str, Any] = {
        "seq": 3, "published_at": NOW, "topic": "t", "partition": 0, "offset": 7,
        "timestamp_ms": None, "reason": "WRONG_TYPE", "detail": "d", "key": None,
        "key_bytes": None, "value": value, "refused_rows": None,
        "value_bytes": len(value) if value is not None and size is None else size,
    }  # fmt: skip
    return ShownDeadLetter(**found | others)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b'{"a": 1}', '{\n "a": 1\n}'),
        ("über".encode(), "über"),
        (None, "null"),
        (b"", ""),
        (b"\0\0\0\0\x07abc\xff", "schema id 7, base64 AAAAAAdhYmP/"),
        (b"\xff\xfe", "base64 //4="),
        (b"\x1b[31mred", "base64 G1szMW1yZWQ="),
    ],
)
def test_a_value_is_shown_as_what_it_is(value: bytes | None, told: str) -> None:
    assert readable(shown(dead_letter(value))["value"]) == told


def test_a_value_that_was_cut_says_how_long_it_is() -> None:
    told = shown(dead_letter("aü".encode()[:2], size=5000))["value"]
    assert told == {"bytes": 5000, "is_cut": True, "text": "a"}
    assert readable(told) == "a … (5,000 bytes)"


def test_what_a_record_holds_is_never_markup() -> None:
    text = HOSTILE.decode()
    found = shown(dead_letter(HOSTILE, detail=text, topic=text, reason=text))
    body = page("dead_letters.html", dead_letters=[(found, readable)], reasons=[], seen=_Seen())
    assert "<script>" not in body
    assert "&lt;script&gt;" in body


def bad(value: bytes) -> list[ShownDeadLetter]:
    return [dead_letter(value, key=value, key_bytes=len(value), refused_rows=value.decode())] * 20


@pytest.mark.parametrize(
    "value",
    [b"[" * 985 + b"]" * 985, b"[" * 19 + b"0," * 900 + b"0" + b"]" * 19, b'"' * 2000],
    ids=["deep", "wide", "escaped"],
)
def test_a_page_has_a_bound_for_records(value: bytes) -> None:
    """G123: brackets in brackets grow with their square, and a depth of 928 answered 500."""
    shown = [(one, readable) for one in fitting(bad(value))]
    body = page("dead_letters.html", dead_letters=shown, reasons=[], seen=_Seen())
    assert len(body) < MOST_SHOWN + 20 * 1000
    assert body.count("data-letter>") == 20


def test_what_is_nested_deeply_is_shown_as_it_came() -> None:
    """G123: 925 brackets are 860 KB with indentation, and more of them no parser reads."""
    for depth in (21, 925, 985):
        text = "[" * depth + "]" * depth
        assert readable(shown(dead_letter(text.encode()))["value"]) == text
    assert readable(shown(dead_letter(b"[" * 20 + b"]" * 20))["value"]).count("\n") == 38


def test_a_record_that_is_too_long_takes_no_room_of_others() -> None:
    """G123: it is named, and told where it can be seen."""
    found = fitting([*bad(b'"' * 2000)[1:], dead_letter(b'{"a": 1}')])
    assert [one["is_left_out"] for one in found] == [True] * 19 + [False]
    body = page(
        "dead_letters.html",
        dead_letters=[(one, readable) for one in found],
        reasons=[],
        seen=_Seen(),
    )
    assert body.count("has no room for it") == 19


def test_who_may_not_read_records_is_told_their_number_alone() -> None:
    reasons = [ReasonCount("BAD", 7, 3)]
    body = page("dead_letters.html", dead_letters=None, reasons=reasons, seen=_Seen())
    assert "data-letters-hidden" in body
    assert "data-reasons" in body
    assert "data-letter>" not in body


class _Seen:
    dags: dict[str, str] = {}  # noqa: RUF012
