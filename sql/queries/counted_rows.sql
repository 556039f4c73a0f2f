-- How many rows of each retained batch the ledger counted in a target, but those that upserts have overwritten since.
SELECT b.seq, coalesce(t.rows_moved - t.rows_overwritten, 0)
FROM tidemark.batches b JOIN tidemark.regions r USING (region)
LEFT JOIN tidemark.batch_targets t ON t.region = b.region AND t.seq = b.seq AND t.target = %(target)s
WHERE b.region = %(region)s AND b.state = 'published' AND b.seq >= r.oldest_seq
