-- How many rows of each retained batch the ledger counted in a target, but those that upserts have overwritten since.
SELECT l.seq, l.rows
FROM tidemark.regions r, tidemark.rows_left(r.region, %(target)s, r.oldest_seq) l
WHERE r.region = %(region)s
