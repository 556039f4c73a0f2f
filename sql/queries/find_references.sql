-- Foreign keys between tables of a list, by their places in it; also of a table to itself. RESTRICT does not wait,
-- whatever the key says of itself.
SELECT k.conname, child.place - 1, parent.place - 1,
       ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a
             WHERE a.attrelid = k.confrelid AND a.attnum = ANY (k.confkey)),
       k.condeferrable AND 'r' NOT IN (k.confdeltype, k.confupdtype),
       k.confdeltype IN ('c', 'n', 'd') OR k.confupdtype IN ('c', 'n', 'd')
FROM unnest(%(tables)s::text[]) WITH ORDINALITY AS child (name, place)
JOIN pg_catalog.pg_constraint k ON k.conrelid = to_regclass(child.name)
JOIN unnest(%(tables)s::text[]) WITH ORDINALITY AS parent (name, place) ON k.confrelid = to_regclass(parent.name)
WHERE k.contype = 'f'
ORDER BY k.conname
