"""Fault words: what pydantic found wrong with a value, for the person who wrote the file."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any

_TEXT, _WHOLE, _SWITCH = "must be text", "must be a whole number", "must be true or false"
_KEYS, _LIST = "must be keys with values (key: value)", "must be a list: [a, b]"
_TIME = "must be a time with its zone, such as 2024-01-01T00:00:00Z"

TEXTS = {
    "missing": "is missing",
    "extra_forbidden": "unknown key",
    "invalid_key": "a key must be text",
    "model_type": _KEYS,
    "dict_type": _KEYS,
    "tuple_type": _LIST,
    "too_short": "must name at least {min_length}",
    "string_type": _TEXT,
    "string_too_short": "is empty",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "enum": "must be {expected}",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "bool_type": _SWITCH,
    "bool_parsing": _SWITCH,
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "datetime_type": _TIME,
    "datetime_parsing": _TIME,
    "datetime_from_date_parsing": _TIME,
    "timezone_aware": _TIME,
}
"""By pydantic's name of a fault; the braces are what it says beside it."""

_SHOWN = (str, int, float, datetime)
_COMPLETE = {"missing", "extra_forbidden", "value_error", "string_too_short"}
"""Whose words need no value: there is none, or our own validators have named it."""


def fault_text(fault: Mapping[str, Any], patterns: Mapping[str, str]) -> str:
    """What is wrong with a value; `patterns` says what a value that matches is."""
    kind, value = fault["type"], fault["input"]
    if value is None and kind != "missing":
        return "is empty"
    said = fault.get("ctx", {})
    if kind == "value_error":
        return str(said["error"])
    text = TEXTS[kind].format(**said) if kind in TEXTS else str(fault["msg"])
    text = patterns.get(said.get("pattern", ""), text)
    if kind not in _COMPLETE and isinstance(value, _SHOWN):
        text += f", got {value!r}"
    return text


def did_you_mean(word: object, known: Sequence[str]) -> str:
    """`; did you mean 'topics'?` where one is close; else nothing."""
    return "".join(f"; did you mean {one!r}?" for one in get_close_matches(str(word), known, 1))
