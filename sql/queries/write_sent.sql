-- What was read back as sent, by whomever: it stays so. Later ones alone. Batches up to it may be pruned.
UPDATE tidemark.regions SET sent_seq = %(seq)s WHERE region = %(region)s AND coalesce(sent_seq, -1) < %(seq)s
