"""What one would write first: Spark's Kafka source, from_json and write.jdbc. Not exactly once."""

import json
import os
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def main() -> None:
    """Copy the topic into the table; print the seconds of work, Spark's start excluded."""
    job = json.loads(os.environ["SPARK_PEER"])
    spark = session(job["cores"], job["jars"])
    schema = ", ".join(f"{name} {kind}" for name, kind in job["schema"].items())
    started = time.monotonic()
    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", job["bootstrap"])
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", job["topic"])
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .load()
    )
    rows = records.select(
        F.from_json(F.col("value").cast("string"), schema).alias("record"),
        F.col("topic").alias("kafka_topic"),
        F.col("partition").alias("kafka_partition"),
        F.col("offset").alias("kafka_offset"),
    ).select("record.*", "kafka_topic", "kafka_partition", "kafka_offset")
    (
        rows.write.format("jdbc")
        .option("url", job["url"])
        .option("dbtable", job["table"])
        .option("user", job["user"])
        .option("password", job["password"])
        .option("driver", "org.postgresql.Driver")
        .option("batchsize", 10_000)
        .mode("append")
        .save()
    )
    print(json.dumps({"seconds": time.monotonic() - started}))
    spark.stop()


def session(cores: int, jars: list[str]) -> SparkSession:
    """A local session with the artifacts that the path needs."""
    return (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.jars", ",".join(jars))
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )


if __name__ == "__main__":
    sys.exit(main())
