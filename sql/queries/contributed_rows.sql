-- Rows that the contributions of a batch have staged, as they counted them.
SELECT coalesce(sum(rows), 0)::bigint FROM tidemark.contributions
WHERE region = %(region)s AND seq = %(seq)s
