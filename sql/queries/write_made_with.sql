-- What the region's rows are made with, the cluster that its offsets belong to, the table they go to.
UPDATE tidemark.regions SET fingerprint = %(fingerprint)s, cluster_id = %(cluster_id)s, target = %(target)s,
    target_oid = %(target_oid)s
WHERE region = %(region)s
