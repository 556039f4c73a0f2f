-- What bears the name, whether it outlives a crash, and whether rows of it may be hidden from us.
SELECT relkind, relpersistence, has_schema_privilege(relnamespace, 'USAGE'),
       row_security_active(oid), current_user
FROM pg_catalog.pg_class
WHERE relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = %(schema)s)
  AND relname = %(table)s
