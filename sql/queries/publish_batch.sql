-- The named CHECK constraints refuse a batch whose moved counts differ from the contributed ones.
UPDATE tidemark.batches b
SET state = 'published', published_at = clock_timestamp(),
    records = (SELECT sum(s.records) FROM tidemark.spans s WHERE s.region = b.region AND s.seq = b.seq),
    rows_contributed = (SELECT sum(c.rows) FROM tidemark.contributions c
                        WHERE c.region = b.region AND c.seq = b.seq),
    rows_moved = %(rows_moved)s, rows_refused = %(rows_refused)s, records_refused = %(records_refused)s,
    rows_deleted = %(rows_deleted)s, rows_superseded = %(rows_superseded)s,
    dead_letters_contributed = (SELECT sum(s.dead_letters) FROM tidemark.spans s
                                WHERE s.region = b.region AND s.seq = b.seq),
    dead_letters_moved = %(dead_letters_moved)s
WHERE b.region = %(region)s AND b.seq = %(seq)s AND b.epoch = %(epoch)s AND b.state = 'planned'
RETURNING records
