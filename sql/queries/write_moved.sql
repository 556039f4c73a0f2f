-- What became of each target's rows, beside what the contributions counted of it.
INSERT INTO tidemark.batch_targets
    (region, seq, target, rows_contributed, rows_moved, rows_refused, rows_deleted, rows_superseded)
SELECT %(region)s, %(seq)s, m.target,
       (SELECT coalesce(sum(r.rows), 0) FROM tidemark.contributions c, unnest(c.targets, c.rows) AS r (target, rows)
        WHERE c.region = %(region)s AND c.seq = %(seq)s AND r.target = m.target),
       m.moved, m.refused, m.deleted, m.superseded
FROM unnest(%(targets)s::text[], %(moved)s::bigint[], %(refused)s::bigint[], %(deleted)s::bigint[],
            %(superseded)s::bigint[]) AS m (target, moved, refused, deleted, superseded)
