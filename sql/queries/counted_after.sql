-- What is published after a checkpoint.
SELECT count(*),
       (SELECT coalesce(sum(l.rows), 0)::bigint
        FROM tidemark.targets t, tidemark.rows_left(t.region, t.target, %(seq)s + 1) l
        WHERE t.region = %(region)s),
       coalesce(sum(dead_letters_moved), 0)::bigint
FROM tidemark.batches b WHERE region = %(region)s AND seq > %(seq)s AND state = 'published'
