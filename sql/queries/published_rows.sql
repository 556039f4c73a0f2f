-- Rows that an epoch has published, by target; OFFSET 0: each batch's targets by their index.
SELECT t.target, sum(t.rows_moved)::bigint
FROM tidemark.batches b
CROSS JOIN LATERAL (SELECT m.target, m.rows_moved FROM tidemark.batch_targets m
                    WHERE m.region = b.region AND m.seq = b.seq OFFSET 0) t
WHERE b.region = %(region)s AND b.epoch = %(epoch)s AND b.state = 'published'
GROUP BY t.target
