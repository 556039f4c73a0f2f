-- What is published after a batch, and how many records that sends of one target: a row each, and each deleted key.
SELECT b.seq, b.uuid::text, b.epoch, coalesce(t.rows_moved + t.rows_deleted, 0)
FROM tidemark.batches b
LEFT JOIN tidemark.batch_targets t ON t.region = b.region AND t.seq = b.seq AND t.target = %(target)s
WHERE b.region = %(region)s AND b.seq > %(seq)s AND b.state = 'published' ORDER BY b.seq
