"""One bare COPY of rows that are there already: what Postgres can take. No path to compare with."""

import io
import json
import os
import time
from contextlib import closing

import psycopg2
from psycopg2 import sql

if __name__ == "__main__":
    job = json.loads(os.environ["PEER_JOB"])
    target, model = sql.Identifier(job["table"]), sql.Identifier(job["rows"])
    rows = io.BytesIO()
    with closing(psycopg2.connect(**job["postgres"])) as connection, connection.cursor() as cursor:
        cursor.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(target))
        columns = sql.SQL(", ").join(sql.Identifier(one.name) for one in cursor.description or ())
        out = sql.SQL("COPY {} ({}) TO STDOUT (FORMAT binary)").format(model, columns)
        cursor.copy_expert(out, rows)
        connection.commit()
        rows.seek(0)
        started = time.monotonic()
        into = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(target, columns)
        cursor.copy_expert(into, rows, size=1 << 20)
        connection.commit()
    print(json.dumps({"seconds": time.monotonic() - started}))
