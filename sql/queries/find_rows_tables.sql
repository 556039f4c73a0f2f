-- The tables of a batch's rows, one for each target.
SELECT relname FROM pg_catalog.pg_class
WHERE relnamespace = to_regnamespace(%(schema)s) AND relkind = 'r'
  AND (relname = %(rows)s OR starts_with(relname, %(rows)s || '.'))
ORDER BY 1
