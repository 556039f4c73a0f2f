-- A region is made once, by its first open.
INSERT INTO tidemark.regions (region, group_id, target, cluster_id)
VALUES (%(region)s, %(group_id)s, %(target)s, %(cluster_id)s)
ON CONFLICT (region) DO NOTHING
