-- What became of each target's rows, beside what the contributions counted of it.
INSERT INTO tidemark.batch_targets
    (region, seq, target, rows_contributed, rows_moved, rows_refused, rows_deleted, rows_superseded, key)
SELECT %(region)s, %(seq)s, m.target,
       (SELECT coalesce(sum(r.rows), 0) FROM tidemark.contributions c, unnest(c.targets, c.rows) AS r (target, rows)
        WHERE c.region = %(region)s AND c.seq = %(seq)s AND r.target = m.target),
       m.rows, m.refused_rows, m.deleted, m.superseded, m.key
FROM jsonb_to_recordset(%(moved)s) AS m (target text, rows bigint, refused_rows bigint, deleted bigint,
                                         superseded bigint, key text[])
