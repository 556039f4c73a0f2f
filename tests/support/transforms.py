"""Transforms that Spark's workers import by name."""

import time

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


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


def mailed(rows: pa.RecordBatch) -> pa.RecordBatch:
    """A column under another name, with other values."""
    mail = pc.utf8_lower(rows["email"])
    place = rows.schema.get_field_index("email")
    return rows.set_column(place, "mail", mail)


def mailed_frame(rows: DataFrame) -> DataFrame:
    """The same through Spark."""
    return rows.withColumn("email", F.lower("email")).withColumnRenamed("email", "mail")


def slow_later(rows: pa.RecordBatch) -> pa.RecordBatch:
    """A millisecond for each record from offset 50,000 on."""
    late = pc.sum(pc.greater_equal(rows["kafka_offset"], 50_000), min_count=0)
    time.sleep(0.001 * late.as_py())
    return rows
