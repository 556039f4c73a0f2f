-- The counts are those of the rows that came; the named CHECK constraints refuse others than were contributed. Of a
-- batch whose dead letters were purged meanwhile nobody knows which a replay had made rows of.
UPDATE tidemark.batches b
SET rows_contributed = (SELECT coalesce(sum(r.rows), 0) FROM tidemark.contributions c, unnest(c.rows) AS r (rows)
                        WHERE c.region = b.region AND c.seq = b.seq),
    (rows_moved, rows_refused, rows_deleted, rows_superseded) = (
        SELECT coalesce(sum(t.rows_moved), 0), coalesce(sum(t.rows_refused), 0), coalesce(sum(t.rows_deleted), 0),
               coalesce(sum(t.rows_superseded), 0)
        FROM tidemark.batch_targets t WHERE t.region = b.region AND t.seq = b.seq),
    records_refused = 0,
    dead_letters_contributed = (SELECT sum(s.dead_letters) FROM tidemark.spans s
                                WHERE s.region = b.region AND s.seq = b.seq),
    dead_letters_moved = %(letters)s + b.dead_letters_replayed,
    again_seq = %(staged_seq)s
WHERE b.region = %(region)s AND b.seq = %(seq)s AND b.state = 'published' AND b.kind = 'drain'
  AND b.dead_letters_purged = 0
RETURNING b.dead_letters_moved
