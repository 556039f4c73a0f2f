"""Rows as records of other formats than the JSON that Postgres makes of them.

Doors: avro_rows.

It asks nobody: the schema is registered by who sends.
"""
