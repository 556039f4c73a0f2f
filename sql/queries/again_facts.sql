-- Whether a batch is published and retained, what it is of, and how many of its dead letters were purged.
SELECT b.kind, b.seq >= r.oldest_seq, b.dead_letters_purged
FROM tidemark.batches b JOIN tidemark.regions r USING (region)
WHERE b.region = %(region)s AND b.seq = %(seq)s AND b.state = 'published'
