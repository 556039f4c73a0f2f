-- Rows that were moved to each target, over the checkpoints that can be restored.
SELECT t.target, sum(t.rows_moved)::bigint
FROM tidemark.batches b JOIN tidemark.regions r USING (region) JOIN tidemark.batch_targets t USING (region, seq)
WHERE b.region = %(region)s AND b.state = 'published' AND b.seq >= r.oldest_seq
GROUP BY t.target
