-- Triggers and rules that can keep rows: those that fire in an ordinary session. A partition may have triggers of
-- its own. In tgtype 1 is FOR EACH ROW and 2 is BEFORE.
WITH parts AS (
    SELECT class.oid FROM pg_catalog.pg_class AS class
    JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
    WHERE namespace.nspname = %(schema)s AND class.relname = %(table)s
), tables AS (
    SELECT oid FROM parts
    UNION SELECT relid FROM parts CROSS JOIN LATERAL pg_partition_tree(parts.oid)
)
SELECT DISTINCT 'trigger', tgname FROM pg_catalog.pg_trigger
WHERE tgrelid IN (SELECT oid FROM tables) AND NOT tgisinternal AND tgenabled IN ('O', 'A')
  AND (tgtype & 1) <> 0 AND (tgtype & 2) <> 0 AND (tgtype & %(trigger)s) <> 0
UNION ALL
SELECT 'rule', rulename FROM pg_catalog.pg_rewrite
WHERE ev_class IN (SELECT oid FROM parts) AND is_instead AND ev_enabled IN ('O', 'A')
  AND ev_type = %(rule)s
ORDER BY 1, 2
