-- The roles that may read a view.
SELECT DISTINCT coalesce(rolname, 'everyone') FROM pg_catalog.pg_class AS class
CROSS JOIN LATERAL aclexplode(coalesce(relacl, acldefault('r', relowner))) AS granted
LEFT JOIN pg_catalog.pg_roles AS role ON role.oid = granted.grantee
WHERE class.oid = to_regclass(%(view)s) AND privilege_type = 'SELECT' ORDER BY 1
