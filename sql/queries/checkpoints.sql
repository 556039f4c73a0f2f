-- Checkpoints that can be restored, newest first; a limit of null is none.
SELECT b.seq, b.epoch, b.records, b.rows_moved, b.dead_letters_moved, b.planned_at, b.published_at,
       b.spans, b.records_refused, b.dead_letters_purged, 
       CASE WHEN b.kind = 'replay' THEN b.letters_replayed END
FROM tidemark.batches b JOIN tidemark.regions r USING (region)
WHERE b.region = %(region)s AND b.state = 'published' AND b.seq >= r.oldest_seq
ORDER BY b.seq DESC LIMIT %(last)s
