-- What retire must leave alone: unpublished batches, and seqs not given out yet.
SELECT r.next_seq, array_remove(array_agg(b.seq), NULL) FROM tidemark.regions r
LEFT JOIN tidemark.batches b ON b.region = r.region AND b.state = 'planned'
WHERE r.region = %(region)s GROUP BY r.next_seq
