"""The library's own functions on a ledger in memory, each called once for the same arguments."""

from collections.abc import Callable, Collection
from functools import cached_property
from typing import Any

from tests.model.processes import Part
from tests.support.fake_ledger import Asleep, FakeLedger, FakeTarget
from tests.support.fake_tables import (
    CLUSTER,
    REGION,
    TARGET,
    TOPIC,
    TOPIC_ID,
    Tables,
    offsets_of,
)
from tests.support.fakes import FakeGroup

from tidemark.errors import RunNotDone, TidemarkError, by_code
from tidemark.model.batch import ONLY, Batch
from tidemark.model.facts import Facts
from tidemark.model.plan import Bounds
from tidemark.protocol.close import close
from tidemark.protocol.open import OpenRequest
from tidemark.protocol.plan import plan_batch
from tidemark.protocol.publish import Outcome, contribute_and_publish, publish_complete
from tidemark.protocol.reset import ResetRequest
from tidemark.protocol.settle import settle

RUN = "run"


class Calls:
    """Every state of the ledger's tables by its number, and what each call made of it."""

    def __init__(self, ends: tuple[int, ...], bounds: Bounds, without: Collection[str]) -> None:
        self.ends, self.bounds, self.without = ends, bounds, without
        self.tables: list[Tables] = []
        self._numbers: dict[Tables, int] = {}
        self._calls: dict[Any, tuple[Any, int]] = {}

    def number(self, tables: Tables) -> int:
        if tables not in self._numbers:
            self._numbers[tables] = len(self.tables)
            self.tables.append(tables)
        return self._numbers[tables]

    def call(
        self, at: int, function: Callable[..., Any], *values: Any, fates: tuple[str, ...] = ()
    ) -> tuple[Any, int]:
        """What the function returns, or the kind of error that it raises; and the tables then."""
        key = (at, function, values, fates)
        if key not in self._calls:
            ledger = FakeLedger(self.tables[at], self.without, fates)
            try:
                found = function(self, ledger, *values)
            except Asleep:
                found = Asleep
            except TidemarkError as error:
                found = by_code()[error.code]
            self._calls[key] = found, self.number(ledger.tables)
        return self._calls[key]

    @cached_property
    def _facts(self) -> Facts:
        ends = offsets_of(self.ends)
        return Facts(CLUSTER, {TOPIC: TOPIC_ID}, dict.fromkeys(ends, 0), ends)

    def open(self, ledger: FakeLedger) -> None:
        request = OpenRequest(RUN, self.bounds, self._facts, ledger.tables.epoch, {ONLY: TARGET})
        settle(ledger, FakeGroup(), REGION, request)

    def reset(self, ledger: FakeLedger) -> None:
        settle(ledger, FakeGroup(), REGION, ResetRequest("test", "a test"))

    def planned(self, ledger: FakeLedger, epoch: int) -> tuple[Batch, ...]:
        """As a member looks at them, without the lock of the region."""
        return tuple(one for one in ledger.unpublished_batches(REGION) if one.epoch == epoch)

    def plan(self, ledger: FakeLedger, epoch: int) -> tuple[Batch, ...]:
        return plan_batch(ledger, REGION, epoch, self._facts)

    def contribute(self, ledger: FakeLedger, number: int, part: Part) -> Outcome:
        target = FakeTarget(self.without)
        return contribute_and_publish(ledger, target, part.batch, part.contribution(number))

    def publish(self, ledger: FakeLedger, epoch: int) -> Outcome | None:
        return publish_complete(ledger, FakeTarget(self.without), REGION, epoch)

    def close(self, ledger: FakeLedger) -> bool:
        try:
            return bool(close(ledger, FakeGroup(), REGION, RUN))
        except RunNotDone:
            return False
