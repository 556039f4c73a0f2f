"""Transforms that Spark's workers import by name."""

import pyarrow as pa
import pyarrow.compute as pc


def shout(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Another column, and a row less for each offset that is a multiple of five."""
    offsets = rows["kafka_offset"]
    fives = pc.multiply(pc.divide(offsets, 5), 5)
    kept = rows.filter(pc.not_equal(offsets, fives))
    return kept.append_column("loud", pc.utf8_upper(kept["value"]))


def of_arrow(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Two rows of three, a column more and one less."""
    thirds = pc.subtract(rows["n"], pc.multiply(pc.divide(rows["n"], 3), 3))
    kept = rows.filter(pc.greater(thirds, 0)).drop_columns(["kafka_topic"])
    return kept.append_column("twice", pc.multiply(kept["n"], 2))


def fails(block: pa.RecordBatch) -> pa.RecordBatch:
    """Raises where there are rows."""
    if block.num_rows:
        raise KeyError("no such airport")
    return block
