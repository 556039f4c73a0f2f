"""Plans: how the values of each writer's schema are read, made once; or why they can't be."""

from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from typing import Generic, TypeVar

from tidemark.decode.errors import RegistryFailed, RegistryGaveNoSchema
from tidemark.decode.port import Reason, Refusal

Key = TypeVar("Key", bound=Hashable)
Plan = TypeVar("Plan")

MOST_PLANS = 1000
"""That are kept: records may name as many as they please."""


MOST_UNKNOWN = 64
"""Stop asking the registry in a block after this many schemas that it does not know: each costs a
request."""

MOST_LATER = 3
"""That many failures of the registry in a block may be about single schemas."""

_NOT_ASKED = (
    f"not looked up: the registry did not know {MOST_UNKNOWN} other schemas in this block of"
    " records. If it knows this one, replay the dead letter"
)


class Plans(Generic[Key, Plan]):
    """What `make` made of each key, or its refusal; of more than `most`, the newest."""

    def __init__(
        self,
        make: Callable[[Key], Plan],
        most: int = MOST_PLANS,
        most_unknown: int | None = MOST_UNKNOWN,
    ) -> None:
        """`most_unknown`: keys of a block that are looked for in vain; None: no bound."""
        self._make = make
        self._most = most
        self._most_unknown = most_unknown
        self._found: dict[Key, Plan | Refusal] = {}
        self._unknown: list[Key] = []

    def of(self, key: Key) -> Plan:
        """The plan of this key.

        Raises:
            Refusal: there is none; names the key.
        """
        found = self._kept(key)
        if isinstance(found, Refusal):
            raise Refusal(found.reason, f"schema {key}: {found.detail}")
        return found

    def unnamed(self, key: Key) -> Plan:
        """The same for a plan that is part of another, whose refusal names the key."""
        found = self._kept(key)
        if isinstance(found, Refusal):
            raise Refusal(found.reason, found.detail)
        return found

    def look_for(self, keys: Iterable[Key]) -> None:
        """Look these up first: then junk before them in a block can't use up the bound.

        What the registry fails for is looked up last: it may answer well about the others.
        """
        later: list[Key] = []
        for key in keys:
            try:
                self._look(key)
            except (RegistryFailed, RegistryGaveNoSchema):
                if len(later) == MOST_LATER:
                    raise
                later.append(key)
        for key in later:
            self._look(key)

    def _look(self, key: Key) -> None:
        with suppress(Refusal):
            self.of(key)

    def _kept(self, key: Key) -> Plan | Refusal:
        if key not in self._found:
            if self._most_unknown is not None and len(self._unknown) >= self._most_unknown:
                return Refusal(Reason.UNKNOWN_SCHEMA, _NOT_ASKED)
            if len(self._found) >= self._most:
                del self._found[next(iter(self._found))]
            try:
                self._found[key] = self._make(key)
            except Refusal as refusal:
                self._found[key] = refusal
                self._unknown += [key] if refusal.reason is Reason.UNKNOWN_SCHEMA else []
        return self._found[key]

    def forget_unknown(self) -> None:
        """Forget the keys that the registry did not know, to ask it again: it may learn them."""
        for key in self._unknown:
            self._found.pop(key, None)
        self._unknown.clear()
