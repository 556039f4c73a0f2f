-- Checkpoints, newest first; a limit of null is none.
SELECT b.seq, b.epoch, b.records, b.rows_moved, b.dead_letters_moved, b.planned_at, b.published_at,
       (SELECT count(*) FROM tidemark.spans s WHERE s.region = b.region AND s.seq = b.seq)
FROM tidemark.batches b WHERE b.region = %(region)s AND b.state = 'published'
ORDER BY b.seq DESC LIMIT %(last)s
