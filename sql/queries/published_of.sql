-- What a batch has published that is there: rows by target, and dead letters that are none of a replay's rows.
SELECT (SELECT coalesce(jsonb_object_agg(t.target, t.rows_moved), '{}') FROM tidemark.batch_targets t
        WHERE t.region = b.region AND t.seq = b.seq),
       b.dead_letters_moved - b.dead_letters_purged - b.dead_letters_replayed
FROM tidemark.batches b WHERE b.region = %(region)s AND b.seq = %(seq)s AND b.state = 'published'
