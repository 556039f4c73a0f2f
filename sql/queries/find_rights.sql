-- Who we are and what we may do in a schema; nulls where it does not exist.
SELECT current_user, has_schema_privilege(nspname, 'USAGE'), has_schema_privilege(nspname, 'CREATE')
FROM (VALUES (1)) AS one LEFT JOIN pg_catalog.pg_namespace ON nspname = %(schema)s
