-- A look, without lock.
SELECT epoch, head_seq, next_seq, cluster_id, group_id, target, oldest_seq, consecutive_resets, fingerprint,
       target_oid
FROM tidemark.regions WHERE region = %(region)s
