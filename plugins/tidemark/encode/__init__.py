"""Rows as records of other formats than the JSON that Postgres makes of them."""
