-- What lies below a table, however deep, and takes part in its statements but not in all that they need: foreign
-- tables, UNLOGGED ones, and those that inherit without being partitions. A temporary one is another session's.
WITH RECURSIVE below AS (
    SELECT class.oid AS parent, class.oid FROM pg_catalog.pg_class AS class
    JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
    WHERE namespace.nspname = %(schema)s AND class.relname = %(table)s
    UNION
    SELECT inherits.inhparent, inherits.inhrelid
    FROM below JOIN pg_catalog.pg_inherits AS inherits ON inherits.inhparent = below.oid
)
SELECT namespace.nspname, class.relname, above.nspname, parent.relname, class.relkind = 'f',
       class.relkind = 'r' AND class.relpersistence = 'u', class.relispartition
FROM below
JOIN pg_catalog.pg_class AS class ON class.oid = below.oid
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
JOIN pg_catalog.pg_class AS parent ON parent.oid = below.parent
JOIN pg_catalog.pg_namespace AS above ON above.oid = parent.relnamespace
WHERE below.oid <> below.parent AND class.relpersistence <> 't'
  AND (class.relkind = 'f' OR class.relkind = 'r' AND class.relpersistence = 'u' OR NOT class.relispartition)
ORDER BY 1, 2
