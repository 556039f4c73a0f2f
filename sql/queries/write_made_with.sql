-- What the region's rows are made with, and the cluster that its offsets belong to.
UPDATE tidemark.regions SET fingerprint = %(fingerprint)s, cluster_id = %(cluster_id)s
WHERE region = %(region)s
