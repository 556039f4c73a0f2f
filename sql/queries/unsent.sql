-- What is published after a batch, and how many records that sends: of one target a row each, and each deleted key;
-- and its dead letters. What is withheld sends none.
SELECT b.seq, b.uuid::text, b.epoch,
       CASE WHEN b.withheld THEN 0 ELSE coalesce(t.rows_moved + t.rows_deleted, 0) END,
       CASE WHEN b.withheld OR NOT %(letters)s THEN 0 ELSE b.dead_letters_moved - b.dead_letters_purged END,
       b.withheld
FROM tidemark.batches b
LEFT JOIN tidemark.batch_targets t ON t.region = b.region AND t.seq = b.seq AND t.target = %(target)s
WHERE b.region = %(region)s AND b.seq > %(seq)s AND b.state = 'published' ORDER BY b.seq
