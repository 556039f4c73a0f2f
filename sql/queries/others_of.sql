-- A group and a table belong to one region: other regions that have one of them.
SELECT r.region, r.group_id = %(group_id)s,
       (SELECT coalesce(array_agg(t.table_name ORDER BY t.target), '{}') FROM tidemark.targets t
        WHERE t.region = r.region AND t.table_name = ANY (%(tables)s))
FROM tidemark.regions r
WHERE r.region <> %(region)s
  AND (r.group_id = %(group_id)s
       OR EXISTS (SELECT FROM tidemark.targets t WHERE t.region = r.region AND t.table_name = ANY (%(tables)s)))
ORDER BY r.region
