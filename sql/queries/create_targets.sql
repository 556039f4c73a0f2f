-- A region's targets, as its first open knows them; later opens write what they were made with.
INSERT INTO tidemark.targets (region, target, table_name)
SELECT %(region)s, t.target, t.table_name FROM unnest(%(targets)s::text[], %(tables)s::text[]) AS t (target, table_name)
WHERE NOT EXISTS (SELECT FROM tidemark.targets k WHERE k.region = %(region)s)
