-- The tables that the region's rows go to.
INSERT INTO tidemark.targets (region, target, table_name, table_oid)
SELECT %(region)s, t.target, t.table_name, t.table_oid
FROM unnest(%(targets)s::text[], %(tables)s::text[], %(oids)s::oid[]) AS t (target, table_name, table_oid)
ON CONFLICT (region, target) DO UPDATE SET table_name = EXCLUDED.table_name, table_oid = EXCLUDED.table_oid
