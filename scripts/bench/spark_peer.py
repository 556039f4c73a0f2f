"""What one would write first: Spark's Kafka source, from_json and write.jdbc. Not exactly once."""

import json
import os
import time
from typing import Any

from jobs.flights import transform
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def session(job: dict[str, Any]) -> SparkSession:
    """A local session with the artifacts that the path needs."""
    return (
        SparkSession.builder.master(f"local[{job['cores']}]")
        .config("spark.jars", ",".join(job["jars"]))
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )


def source(job: dict[str, Any]) -> dict[str, str]:
    """The options of Kafka's source."""
    return {
        "kafka.bootstrap.servers": job["bootstrap"],
        "kafka.isolation.level": "read_committed",
        "subscribe": job["topic"],
        "startingOffsets": "earliest",
    }


def rows(records: DataFrame, job: dict[str, Any]) -> DataFrame:
    """Decoded, with their offsets, and through the worked example's transform if wanted."""
    schema = ", ".join(f"{name} {kind}" for name, kind in job["schema"].items())
    decoded = records.select(
        F.from_json(F.col("value").cast("string"), schema).alias("record"),
        F.col("topic").alias("kafka_topic"),
        F.col("partition").alias("kafka_partition"),
        F.col("offset").alias("kafka_offset"),
    ).select("record.*", "kafka_topic", "kafka_partition", "kafka_offset")
    return transform(decoded) if job["transform"] else decoded


def insert(frame: DataFrame, job: dict[str, Any], table: str, mode: str) -> None:
    """By batches of rows, which the driver rewrites into inserts of many rows."""
    p = job["postgres"]
    url = f"jdbc:postgresql://{p['host']}:{p['port']}/{p['dbname']}?reWriteBatchedInserts=true"
    (
        frame.write.format("jdbc")
        .options(url=url, user=p["user"], password=p["password"], dbtable=table)
        .options(driver="org.postgresql.Driver", batchsize=10_000, truncate=True)
        .mode(mode)
        .save()
    )


if __name__ == "__main__":
    job = json.loads(os.environ["PEER_JOB"])
    spark = session(job)
    started = time.monotonic()
    records = spark.read.format("kafka").options(**source(job)).option("endingOffsets", "latest")
    insert(rows(records.load(), job), job, job["table"], "append")
    print(json.dumps({"seconds": time.monotonic() - started}))
    spark.stop()
