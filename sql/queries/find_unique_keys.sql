-- Columns of each unique index that ON CONFLICT can use, in the order of their names, and whether equal values of
-- them have equal bytes: to the index, and to a join, which goes by the column's own collation.
SELECT array_agg(attribute.attname::text ORDER BY attribute.attname COLLATE "C"),
       bool_and(NOT EXISTS (
           SELECT FROM pg_catalog.pg_collation AS coll
           WHERE coll.oid IN (part.oid, attribute.attcollation) AND NOT coll.collisdeterministic))
FROM pg_catalog.pg_class AS class
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
JOIN pg_catalog.pg_index AS idx ON idx.indrelid = class.oid
CROSS JOIN LATERAL unnest(idx.indkey::int2[], idx.indcollation::oid[]) WITH ORDINALITY AS part (attnum, oid, place)
JOIN pg_catalog.pg_attribute AS attribute ON attribute.attrelid = class.oid AND attribute.attnum = part.attnum
WHERE namespace.nspname = %(schema)s AND class.relname = %(table)s
  AND idx.indisunique AND idx.indisvalid AND idx.indimmediate
  AND idx.indpred IS NULL AND idx.indexprs IS NULL AND part.place <= idx.indnkeyatts
GROUP BY idx.indexrelid
