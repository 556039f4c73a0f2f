-- The last update of a publish; it must touch exactly one row: the batch before this one is the head.
UPDATE tidemark.regions r SET head_seq = b.seq, consecutive_resets = 0
FROM tidemark.batches b
WHERE r.region = %(region)s AND r.epoch = %(epoch)s
  AND b.region = r.region AND b.seq = %(seq)s AND b.previous_seq = r.head_seq
