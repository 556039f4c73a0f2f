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


def main() -> None:
    """Copy what the topic holds into the table; print the seconds of work."""
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


def write(job: dict[str, Any], frame: DataFrame, batch_id: int) -> None:
    """Stage the batch, then publish it with its id, unless a try before did."""
    insert(frame, job, f"{job['table']}_staging", "overwrite")
    columns = sql.SQL(", ").join(map(sql.Identifier, frame.columns))
    with (
        closing(psycopg2.connect(**job["postgres"])) as connection,
        connection,
        connection.cursor() as cursor,
    ):
        known = "INSERT INTO {batches} VALUES (%s) ON CONFLICT DO NOTHING"
        cursor.execute(statement(known, job["table"]), [batch_id])
        if cursor.rowcount:
            move = "INSERT INTO {table} ({columns}) SELECT {columns} FROM {staging}"
            cursor.execute(statement(move, job["table"], columns=columns))


def statement(text: str, table: str, **parts: sql.Composable) -> sql.Composed:
    """With the names of the target's tables."""
    names = {
        "table": sql.Identifier(table),
        "staging": sql.Identifier(f"{table}_staging"),
        "batches": sql.Identifier(f"{table}_batches"),
    }
    return sql.SQL(text).format(**names, **parts)


if __name__ == "__main__":
    main()
