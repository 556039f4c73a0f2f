-- Whether any ledger was ever made in this database.
SELECT to_regclass('tidemark.regions') IS NOT NULL
