-- The last update of a publish; it must touch exactly one row.
UPDATE tidemark.regions SET head_seq = %(seq)s, consecutive_resets = 0
WHERE region = %(region)s AND epoch = %(epoch)s AND head_seq < %(seq)s
