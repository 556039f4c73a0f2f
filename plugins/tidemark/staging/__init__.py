"""Staging tables and the target table: how rows reach Postgres, and how a rewind takes them back.

Doors: catalog, column, columns, copy, errors, fit, keyed, move, output_rows, refusal, refused,
replay, rewind, tables, target, target_writer, texts, upsert_sql.

It never commits: it works inside the transaction that it is given, but for COPY into staging.
"""
