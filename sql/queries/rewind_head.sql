-- The last update of a rewind; it must touch exactly one row.
UPDATE tidemark.regions SET head_seq = %(seq)s, oldest_seq = least(oldest_seq, %(seq)s),
    pruned_rows = CASE WHEN %(seq)s = 0 THEN 0 ELSE pruned_rows END
WHERE region = %(region)s AND epoch = %(epoch)s
