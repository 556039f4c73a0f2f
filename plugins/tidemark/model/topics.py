"""Topics as a pipeline lists them: names, and patterns of Python's `re`."""

import re
from collections.abc import Iterable


def is_pattern(text: str) -> bool:
    """A pattern begins with ^; a topic's name can't."""
    return text.startswith("^")


def takes_in(topics: Iterable[str], topic: str) -> bool:
    """Whether names and patterns take the topic in; a pattern must match the whole name."""
    return any(re.fullmatch(t, topic) if is_pattern(t) else t == topic for t in topics)
