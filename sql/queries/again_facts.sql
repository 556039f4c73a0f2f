-- Whether a batch is published and retained, what it is of, how many of its dead letters were purged, and whether rows
-- of it were upserted.
SELECT b.kind, b.seq >= r.oldest_seq, b.dead_letters_purged,
       EXISTS (SELECT FROM tidemark.batch_targets t
               WHERE t.region = b.region AND t.seq = b.seq AND t.key IS NOT NULL)
FROM tidemark.batches b JOIN tidemark.regions r USING (region)
WHERE b.region = %(region)s AND b.seq = %(seq)s AND b.state = 'published'
