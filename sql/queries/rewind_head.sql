-- The last update of a rewind; it must touch exactly one row.
UPDATE tidemark.regions SET head_seq = %(seq)s, oldest_seq = least(oldest_seq, %(seq)s)
WHERE region = %(region)s AND epoch = %(epoch)s
