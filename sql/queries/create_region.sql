-- A region is made once, by its first open. One of this name that is gone has left zombies behind, and rows
-- with its seqs: their epochs and seqs are not given out again.
INSERT INTO tidemark.regions (region, group_id, cluster_id, epoch, next_seq)
SELECT %(region)s, %(group_id)s, %(cluster_id)s,
       coalesce(max((a.details->>'epoch')::bigint), 0), coalesce(max((a.details->>'next_seq')::bigint), 1)
FROM tidemark.actions a WHERE a.region = %(region)s AND a.kind IN ('drop', 'rename')
ON CONFLICT (region) DO NOTHING
