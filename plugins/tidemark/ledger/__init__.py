"""The ledger: the Postgres tables that hold the only truth."""
