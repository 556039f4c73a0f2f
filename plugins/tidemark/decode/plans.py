"""Plans: how the values of each writer's schema are read, made once; or why they can't be."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from tidemark.decode.outcome import Reason, Refusal

Key = TypeVar("Key", bound=Hashable)
Plan = TypeVar("Plan")


class Plans(Generic[Key, Plan]):
    """What `make` made of each key, or its refusal."""

    def __init__(self, make: Callable[[Key], Plan]) -> None:
        self._make = make
        self._found: dict[Key, Plan | Refusal] = {}

    def of(self, key: Key) -> Plan:
        """The plan of this key.

        Raises:
            Refusal: there is none; names the key.
        """
        if key not in self._found:
            try:
                self._found[key] = self._make(key)
            except Refusal as refusal:
                self._found[key] = refusal
        found = self._found[key]
        if isinstance(found, Refusal):
            raise Refusal(found.reason, f"schema {key}: {found.detail}")
        return found

    def forget_unknown(self) -> None:
        """What the registry did not know, it is asked again: it may learn."""
        unknown = [
            key
            for key, found in self._found.items()
            if isinstance(found, Refusal) and found.reason is Reason.UNKNOWN_SCHEMA
        ]
        for key in unknown:
            del self._found[key]
