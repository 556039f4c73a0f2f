-- A group and a target belong to one region: refused by name before the constraints do it.
SELECT r.region, r.group_id,
       (SELECT string_agg(t.table_name, ', ' ORDER BY t.target) FROM tidemark.targets t WHERE t.region = r.region)
FROM tidemark.regions r
WHERE r.region <> %(region)s
  AND (r.group_id = %(group_id)s
       OR EXISTS (SELECT FROM tidemark.targets t WHERE t.region = r.region AND t.table_name = ANY (%(tables)s)))
