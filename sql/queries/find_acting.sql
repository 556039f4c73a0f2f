-- Foreign keys that delete or change rows if one of a table, or of a partition of it, is deleted.
SELECT DISTINCT child_schema.nspname, child.relname, k.conname
FROM pg_catalog.pg_class AS class
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
CROSS JOIN LATERAL (SELECT class.oid AS relid UNION SELECT relid::oid FROM pg_catalog.pg_partition_tree(class.oid)) AS part
JOIN pg_catalog.pg_constraint AS k ON k.confrelid = part.relid
JOIN pg_catalog.pg_class AS child ON child.oid = k.conrelid
JOIN pg_catalog.pg_namespace AS child_schema ON child_schema.oid = child.relnamespace
WHERE namespace.nspname = %(schema)s AND class.relname = %(table)s
  AND k.contype = 'f' AND k.conparentid = 0 AND k.confdeltype IN ('c', 'n', 'd')
ORDER BY 1, 2, 3
