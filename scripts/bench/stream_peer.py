"""The recipe for exactly once with Spark alone: Structured Streaming and foreachBatch.

A micro-batch is written to a staging table; then one Postgres transaction moves it into the target
and writes down its id. A batch whose id is there already is not moved again.
"""

import json
import os
import time
from contextlib import closing
from functools import partial
from typing import Any

import psycopg2
from psycopg2 import sql
from pyspark.sql import DataFrame
from scripts.bench.spark_peer import insert, rows, session, source

TABLES = """
CREATE UNLOGGED TABLE IF NOT EXISTS {staging} (LIKE {table});
CREATE TABLE IF NOT EXISTS {batches} (batch_id bigint PRIMARY KEY);
"""
KNOWN = "INSERT INTO {batches} VALUES (%s) ON CONFLICT DO NOTHING"
MOVE = "INSERT INTO {table} ({columns}) SELECT {columns} FROM {staging}"


def write(job: dict[str, Any], frame: DataFrame, batch_id: int) -> None:
    """Stage the batch, then publish it with its id, unless a try before did."""
    insert(frame, job, f"{job['table']}_staging", "overwrite")
    postgres, table = psycopg2.connect(**job["postgres"]), job["table"]
    with closing(postgres) as connection, connection, connection.cursor() as cursor:
        cursor.execute(statement(KNOWN, table), [batch_id])
        if cursor.rowcount:
            columns = sql.SQL(", ").join(map(sql.Identifier, frame.columns))
            cursor.execute(statement(MOVE, table, columns=columns))


def statement(text: str, table: str, **parts: sql.Composable) -> sql.Composed:
    """With the names of the target's tables."""
    ends = {"table": "", "staging": "_staging", "batches": "_batches"}
    names = {name: sql.Identifier(table + end) for name, end in ends.items()}
    return sql.SQL(text).format(**names, **parts)


if __name__ == "__main__":
    job = json.loads(os.environ["PEER_JOB"])
    with closing(psycopg2.connect(**job["postgres"])) as connection, connection:
        connection.cursor().execute(statement(TABLES, job["table"]))
    spark = session(job)
    started = time.monotonic()
    records = spark.readStream.format("kafka").options(**source(job))
    query = (
        rows(records.option("maxOffsetsPerTrigger", job["batch"]).load(), job)
        .writeStream.foreachBatch(partial(write, job))
        .option("checkpointLocation", job["folder"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(json.dumps({"seconds": time.monotonic() - started}))
    spark.stop()
