"""The output topic in every order of events; `pytest -s` prints the number of states."""

from itertools import combinations_with_replacement

import pytest
from tests.model.output import Faults, World
from tests.model.output_promises import searched

ALONE = [Faults(**{fault: 1}) for fault in Faults._fields]
CRASH, OPEN, REWIND, RESTORE, EXPIRE, LATE, WITHHOLD, HAND, OLDER, KEEP = ALONE
NONE = Faults()
MORE = (OPEN, REWIND, RESTORE, EXPIRE, LATE, WITHHOLD, HAND, KEEP)


def both(one: Faults, other: Faults) -> Faults:
    return Faults(*map(sum, zip(one, other, strict=True)))


# With ledger and offsets both from before a batch was sent, the topic alone knows: docs/output.md
# tells who restores both to say what was sent.
UNKNOWABLE = both(RESTORE, OLDER)
PAIRS = [both(*pair) for pair in combinations_with_replacement(ALONE, 2)]
PAIRS.remove(UNKNOWABLE)


@pytest.mark.parametrize(
    "faults",
    [NONE, CRASH, OLDER, *(pytest.param(one, marks=pytest.mark.long) for one in MORE)],
    ids=str,
)
def test_each_row_is_sent_once_whatever_happens(faults: Faults) -> None:
    """B9: in order, of published batches alone, none left out; and it stops only for a cause."""
    states, wrong = searched(World(faults, batches=2))
    print(f"\n{faults}: {states:,} states")
    assert wrong == ""


@pytest.mark.long
@pytest.mark.timeout(7200)  # it only computes: a busy machine is slow
@pytest.mark.parametrize("faults", [*ALONE, *PAIRS], ids=str)
def test_each_row_is_sent_once_whatever_happens_twice(faults: Faults) -> None:
    states, wrong = searched(World(faults, batches=3))
    print(f"\n{faults}: {states:,} states")
    assert wrong == ""


@pytest.mark.parametrize(
    ("guard", "found", "faults"),
    [
        ("look after fence", "twice or out of order", NONE),
        ("read after fence", "Kafka's offset", REWIND),
        ("one transaction, begun", "twice or out of order", NONE),
        ("memory, at least, begun", "twice or out of order", NONE),
        ("epoch", "Kafka's offset", REWIND),
        pytest.param(
            "never falls, at least, begun",
            "twice or out of order",
            both(CRASH, REWIND),
            marks=pytest.mark.long,
        ),
        ("head", "stopped without a cause", REWIND),
        ("uuid", "at rest, and", RESTORE),
        ("stable, asked again", "stopped without a cause", LATE),
        ("read back", "Kafka's offset", both(REWIND, LATE)),
        pytest.param(
            "rewind's look, at least, begun",
            "twice or out of order",
            both(EXPIRE, REWIND),
            marks=pytest.mark.long,
        ),
        pytest.param(
            "topic", "twice or out of order", both(RESTORE, EXPIRE), marks=pytest.mark.long
        ),
        ("missing", "twice or out of order", EXPIRE),
        ("withhold's epoch", "sent, and withheld", WITHHOLD),
        ("withhold's mirror", "sent, and withheld", WITHHOLD),
        ("by hand", "sent, and withheld", both(HAND, WITHHOLD)),
        ("withhold's check", "sent, and withheld", WITHHOLD),
        ("withhold's ledger", "sent, and withheld", both(WITHHOLD, OLDER)),
        ("at least, begun", "twice or out of order", OLDER),
        ("begun", "twice or out of order", both(CRASH, OLDER)),
        ("asked again", "stopped without a cause", NONE),
        ("at least before the look, asked again", "stopped without a cause", KEEP),
    ],
)
def test_a_guard_that_is_taken_out_is_missed(guard: str, found: str, faults: Faults) -> None:
    """B9: the seeded bugs of the protocol."""
    states, wrong = searched(World(faults, 2, frozenset(guard.split(", "))))
    print(f"\n{guard}: {states:,} states, {wrong}")
    assert wrong.startswith(found)
