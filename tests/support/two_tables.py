"""A transform for two targets: each record's number, and the newest number of its remainder."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

NUMBERS, NEWEST = "numbers", "newest"
PLACE = ["kafka_topic", "kafka_partition", "kafka_offset"]
TARGETS: dict[str, dict[str, Any]] = {
    NEWEST: {
        "connection": "tidemark_warehouse",
        "table": "public.newest",
        "mode": "upsert",
        "key": ["k", "kafka_partition"],
        "deleted": "gone",
    },
    NUMBERS: {"connection": "tidemark_warehouse", "table": "public.numbers"},
}
"""One of each mode."""
SETTINGS = {
    "decode": {"schema": {"n": "bigint"}},
    "targets": TARGETS,
    "transform": "tests.support.two_tables:transform",
}
KEYS = 7


def transform(records: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
    """Every number; of each remainder by seven the last, or none if that is divisible by three."""
    numbers = pc.fill_null(records["n"], 0)
    thirds = pc.multiply(pc.divide(numbers, 3), 3)
    sevenths = pc.multiply(pc.divide(numbers, KEYS), KEYS)
    columns = {
        "k": pc.subtract(numbers, sevenths),
        "n": numbers,
        "gone": pc.equal(numbers, thirds),
        **{name: records[name] for name in PLACE},
    }
    newest = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
    return {NUMBERS: records.select(["n", *PLACE]), NEWEST: newest}


def newest(numbers: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """What the second table holds of (partition, offset, number)."""
    last = {
        (n % KEYS, partition): (partition, offset, n) for partition, offset, n in sorted(numbers)
    }
    return sorted(row for row in last.values() if row[2] % 3)


EVENS = "evens"
APPENDED = {name: {**TARGETS[NUMBERS], "table": f"public.{name}"} for name in (NUMBERS, EVENS)}
"""Two that are only appended to."""


def with_evens(records: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
    """Every number; and the even ones once more."""
    found = records.select(["n", *PLACE])
    halves = pc.multiply(pc.divide(found["n"], 2), 2)
    return {NUMBERS: found, EVENS: found.filter(pc.equal(found["n"], halves))}
