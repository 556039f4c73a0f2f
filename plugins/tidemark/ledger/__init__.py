"""The ledger: the Postgres tables that are the source of truth."""
