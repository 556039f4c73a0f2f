"""One Postgres server: its transactions, and what its errors mean."""
