-- The named CHECK constraints refuse a replay whose counts are not those of what it chose and staged.
UPDATE tidemark.batches b
SET state = 'published', published_at = clock_timestamp(),
    rows_contributed = (SELECT coalesce(sum(r.rows), 0) FROM tidemark.contributions c, unnest(c.rows) AS r (rows)
                        WHERE c.region = b.region AND c.seq = b.seq),
    (rows_moved, rows_refused, rows_deleted, rows_superseded) = (
        SELECT coalesce(sum(t.rows_moved), 0), coalesce(sum(t.rows_refused), 0), coalesce(sum(t.rows_deleted), 0),
               coalesce(sum(t.rows_superseded), 0)
        FROM tidemark.batch_targets t WHERE t.region = b.region AND t.seq = b.seq),
    dead_letters_contributed = %(dead_letters)s, dead_letters_moved = 0,
    letters_replayed = %(replayed)s, letters_kept = %(kept)s
WHERE b.region = %(region)s AND b.seq = %(seq)s AND b.epoch = %(epoch)s AND b.state = 'planned' AND b.kind = 'replay'
