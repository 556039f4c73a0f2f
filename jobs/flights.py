"""The worked example's transform: a flight as the airline wrote it, plus what analysts ask for."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

LATE_MINUTES = 15
KM_PER_MILE = 1.609344


def transform(flights: DataFrame) -> DataFrame:
    """Add the scheduled departure, delay flags and kilometres; keep every row.

    A transform knows nothing of offsets. The columns kafka_* pass through, so the target
    stores where each row came from.
    """
    return (
        flights.withColumn("scheduled_departure", _scheduled_departure())
        .withColumn("cancelled", F.col("dep_time").isNull())
        .withColumn("departed_late", F.col("dep_delay") > LATE_MINUTES)
        .withColumn("arrived_late", F.col("arr_delay") > LATE_MINUTES)
        .withColumn("distance_km", F.round(F.col("distance") * KM_PER_MILE, 1))
        .drop("hour", "minute")
    )


def _scheduled_departure() -> F.Column:
    """time_hour is the scheduled hour in UTC; the minute stands beside it."""
    return F.col("time_hour") + F.make_dt_interval(mins=F.col("minute"))
