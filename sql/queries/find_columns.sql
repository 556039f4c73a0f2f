-- The columns of a table. A domain counts as the type below it, whose values it holds. The last
-- column: whether a cast makes a value of every text, or refuses it, and loses nothing.
SELECT attribute.attname,
       CASE type.typtype
           WHEN 'd' THEN format_type(type.typbasetype, type.typtypmod)
           ELSE format_type(attribute.atttypid, attribute.atttypmod)
       END,
       attribute.attnotnull,
       (attribute.atthasdef AND attribute.attgenerated = '') OR type.typdefault IS NOT NULL,
       attribute.attidentity,
       attribute.attgenerated,
       has_column_privilege(class.oid, attribute.attnum, 'INSERT'),
       (SELECT conname FROM pg_catalog.pg_constraint
        WHERE conrelid = class.oid AND contype = 'p' AND attribute.attnum = ANY (conkey)),
       item.typtype = 'e' OR item.typname IN
           ('uuid', 'inet', 'cidr', 'macaddr', 'macaddr8', 'json', 'jsonb', 'citext', 'int4range', 'int8range',
            'numrange', 'int4multirange', 'int8multirange', 'nummultirange')
FROM pg_catalog.pg_class AS class
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
JOIN pg_catalog.pg_attribute AS attribute ON attribute.attrelid = class.oid
JOIN pg_catalog.pg_type AS type ON type.oid = attribute.atttypid
JOIN pg_catalog.pg_type AS base
    ON base.oid = CASE type.typtype WHEN 'd' THEN type.typbasetype ELSE type.oid END
JOIN pg_catalog.pg_type AS item
    ON item.oid = CASE base.typcategory WHEN 'A' THEN base.typelem ELSE base.oid END
WHERE namespace.nspname = %(schema)s AND class.relname = %(table)s
  AND attribute.attnum > 0 AND NOT attribute.attisdropped
ORDER BY attribute.attnum
