-- What is published after a checkpoint.
SELECT count(*),
       coalesce(sum((SELECT sum(t.rows_moved - t.rows_overwritten) FROM tidemark.batch_targets t
                     WHERE t.region = b.region AND t.seq = b.seq)), 0)::bigint,
       coalesce(sum(dead_letters_moved), 0)::bigint
FROM tidemark.batches b WHERE region = %(region)s AND seq > %(seq)s AND state = 'published'
