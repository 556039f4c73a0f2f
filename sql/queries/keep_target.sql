-- The first publish keeps which table bears the target's name; from then on only that one counts.
UPDATE tidemark.targets t SET table_oid = c.oid
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE t.region = %(region)s AND t.target = %(target)s AND n.nspname = %(schema)s AND c.relname = %(table)s
  AND coalesce(t.table_oid, c.oid) = c.oid
