-- Rows of one target that the contributions of a batch have staged, as they counted them.
SELECT coalesce(sum(r.rows), 0)::bigint FROM tidemark.contributions c, unnest(c.targets, c.rows) AS r (target, rows)
WHERE c.region = %(region)s AND c.seq = %(seq)s AND r.target = %(target)s
