-- The seq of each batch of a region that still has a staging table.
SELECT DISTINCT substring(relname FROM %(pattern)s)::bigint
FROM pg_catalog.pg_class
WHERE relnamespace = to_regnamespace(%(schema)s) AND relkind = 'r' AND relname ~ %(pattern)s
ORDER BY 1
