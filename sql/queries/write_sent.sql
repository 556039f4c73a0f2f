-- What a close has read back as sent: later ones alone. Batches up to it may be pruned.
UPDATE tidemark.regions SET sent_seq = %(seq)s
WHERE region = %(region)s AND epoch = %(epoch)s AND coalesce(sent_seq, -1) < %(seq)s
