"""Two batches in flight, in every order of events: bounds that are small, and nothing left out.

`pytest -s` prints how many states there are. `make test-rest` goes through larger worlds.
"""

from collections.abc import Callable, Collection
from typing import Any

import pytest
from tests.model.in_flight import World
from tests.model.processes import Faults
from tests.model.search import Search

from tidemark.model.plan import Bounds
from tidemark.protocol import plan, publish
from tidemark.protocol.publish import Outcome, Result

Patch = tuple[Any, str, Callable[..., Any]]

ALONE = [Faults(**{fault: 1}) for fault in Faults._fields]
NONE, CRASH, UNANSWERED, POSTGRES, RESET, OPEN = Faults(), *ALONE
PAIRS = [
    Faults(crash=2),
    Faults(crash=1, unanswered=1),
    Faults(crash=1, reset=1),
    Faults(unanswered=1, reset=1),
    Faults(crash=1, open=1),
    Faults(crash=1, postgres=1),
    Faults(unanswered=1, postgres=1),
]
APART, TOGETHER, WIDE = ((1, 1), 1), ((2, 1), 2), ((2, 2), 2)
"""Where the partitions end, and max_records: batches of one partition each, or that share one."""


def _name(one: str | Patch) -> str:
    return one if isinstance(one, str) else one[1]


def searched(
    world: tuple[tuple[int, ...], int], faults: Faults, without: Collection[str] = ()
) -> Search:
    """Every state that these faults lead to, where these guards are taken out."""
    ends, records = world
    search = Search(World(ends, Bounds(records, in_flight=2), faults, without), most=1_000_000)
    print(f"\n{ends}, {records} records a batch, {faults}: {search}")
    return search


@pytest.mark.parametrize(
    ("world", "faults"),
    [
        *((APART, one) for one in (NONE, *ALONE)),
        (TOGETHER, NONE),
        *(pytest.param(TOGETHER, one, marks=pytest.mark.long) for one in ALONE[:-1]),
    ],
    ids=str,
)
def test_all_promises_hold_in_every_order(
    world: tuple[tuple[int, ...], int], faults: Faults
) -> None:
    """B1, B18: nothing lost or doubled, in order, at most two; and every run can be done."""
    assert searched(world, faults).wrong == ""


@pytest.mark.long
@pytest.mark.timeout(7200)  # it only computes: a busy machine is slow
@pytest.mark.parametrize(
    ("world", "faults"),
    [
        (TOGETHER, OPEN),  # as many states as all others together
        *((TOGETHER, pair) for pair in PAIRS),
        *((WIDE, alone) for alone in ALONE),
    ],
    ids=str,
)
def test_all_promises_hold_in_every_order_of_more(
    world: tuple[tuple[int, ...], int], faults: Faults
) -> None:
    assert searched(world, faults).wrong == ""


FROM_THE_LEDGER = (plan, "_planned", lambda tx, batches: tx.next_offsets())
ANY_NUMBER = (plan, "_in_flight", lambda tx, bounds: 3)
BY_WHO_COMPLETES = (publish, "_publish_lowest", lambda *_: None)
UNASKED = (publish, "_look_up", lambda *given: Outcome(Result.published, seq=given[2].seq))


@pytest.mark.parametrize(
    ("bug", "found", "world", "faults"),
    [
        ({"lowest"}, "told Fenced", APART, NONE),
        ({"lowest", "head"}, "published without the one before", APART, NONE),
        ({"epoch"}, "in epoch 2 are unpublished", APART, RESET),
        ({"discard"}, "in epoch 2 are unpublished", APART, RESET),
        ({"claims"}, "the target holds", TOGETHER, NONE),
        ({"complete"}, "told Fenced", TOGETHER, NONE),
        ({"complete", "offsets"}, "told LedgerInconsistent", TOGETHER, NONE),
        ({"complete", "offsets", "claimed"}, "the target holds", TOGETHER, NONE),
        ({"counts"}, "the target holds", APART, POSTGRES),
        ({"own rows"}, "contributed is not so", APART, POSTGRES),
        ({"own claim"}, "contributed is not so", TOGETHER, UNANSWERED),
        ({FROM_THE_LEDGER}, "told LedgerInconsistent", APART, NONE),
        ({FROM_THE_LEDGER, "overlap"}, "does not begin at", APART, NONE),
        ({ANY_NUMBER}, "told Fenced", ((2, 2), 1), NONE),
        ({ANY_NUMBER, "in flight"}, "in epoch 1 are unpublished", ((2, 2), 1), NONE),
        ({BY_WHO_COMPLETES}, "the run is never done", APART, NONE),
        ({UNASKED}, "published 1 is not so", APART, UNANSWERED),
        ({"memo"}, "the run is never done", TOGETHER, NONE),
    ],
    ids=lambda value: " and ".join(sorted(map(_name, value))) if isinstance(value, set) else "",
)
def test_a_guard_that_is_taken_out_is_missed(
    monkeypatch: pytest.MonkeyPatch,
    bug: set[str | Patch],
    found: str,
    world: tuple[tuple[int, ...], int],
    faults: Faults,
) -> None:
    """Of the ledger by its name in the fake; of the steps, the function put in its place."""
    for one in bug:
        if not isinstance(one, str):
            monkeypatch.setattr(*one)
    search = searched(world, faults, {one for one in bug if isinstance(one, str)})
    assert found in search.wrong
    assert search.trace[0] == "begin"
