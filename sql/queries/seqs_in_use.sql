-- What retire must leave alone: the unpublished batch, and seqs not given out yet.
SELECT r.next_seq, b.seq FROM tidemark.regions r
LEFT JOIN tidemark.batches b ON b.region = r.region AND b.state = 'planned'
WHERE r.region = %(region)s
