-- Other names of the same tables.
UPDATE tidemark.targets t SET table_name = n.table_name
FROM unnest(%(targets)s::text[], %(tables)s::text[]) AS n (target, table_name)
WHERE t.region = %(region)s AND t.target = n.target
