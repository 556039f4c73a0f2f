-- Overrides that earlier opens of the same run were given, with the epoch that used each.
SELECT override, max(epoch) FROM tidemark.runs, unnest(overrides) AS override
WHERE region = %(region)s AND run_id = %(run_id)s GROUP BY override
