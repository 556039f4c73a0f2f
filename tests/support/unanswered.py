"""A publish of a replay whose COMMIT has no answer."""

from types import ModuleType
from typing import Any

import pytest

from tidemark.errors import OutcomeUnknown


def unanswered(monkeypatch: pytest.MonkeyPatch, protocol: ModuleType, fate: str) -> list[int]:
    """The first `_publish` has no answer: it was sent, or lost. Returns a list of the calls."""
    publish, calls = protocol._publish, list[int]()

    def once(*values: Any) -> Any:
        calls.append(1)
        if len(calls) > 1:
            return publish(*values)
        if fate == "sent":
            publish(*values)
        raise OutcomeUnknown()

    monkeypatch.setattr(protocol, "_publish", once)
    return calls
