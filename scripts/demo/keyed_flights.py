"""Arrow transforms that give each flight a key: 100,000 keys, 1,000,000, or its own.

A key stays in one of eight partitions, and a million records in order have each key equally often.
"""

import pyarrow as pa
import pyarrow.compute as pc

PARTITIONS = 8
FACTOR = 2_654_435_761
"""Prime: neighbours in the topic are far apart in the table."""


def of_100_000(flights: pa.RecordBatch) -> pa.RecordBatch:
    """Add the column `id`."""
    return _keyed(flights, 100_000)


def of_1_000_000(flights: pa.RecordBatch) -> pa.RecordBatch:
    """Add the column `id`."""
    return _keyed(flights, 1_000_000)


def of_each(flights: pa.RecordBatch) -> pa.RecordBatch:
    """Add the column `id`; no two of ten million flights have the same."""
    return _keyed(flights, 10_000_000)


def _keyed(flights: pa.RecordBatch, keys: int) -> pa.RecordBatch:
    place = pc.add(
        pc.multiply(flights["kafka_offset"], PARTITIONS),
        pc.cast(flights["kafka_partition"], pa.int64()),
    )
    spread = pc.multiply(place, FACTOR)
    rest = pc.subtract(spread, pc.multiply(pc.divide(spread, keys), keys))
    return flights.append_column("id", rest)
