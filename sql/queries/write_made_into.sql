-- The tables that the region's rows go to.
INSERT INTO tidemark.targets (region, target, table_name, table_oid, key_forms)
SELECT %(region)s, t.target, t.table_name, t.table_oid, t.key_forms
FROM unnest(%(targets)s::text[], %(tables)s::text[], %(oids)s::oid[], %(key_forms)s::jsonb[])
    AS t (target, table_name, table_oid, key_forms)
ON CONFLICT (region, target) DO UPDATE
    SET table_name = EXCLUDED.table_name, table_oid = EXCLUDED.table_oid, key_forms = EXCLUDED.key_forms
