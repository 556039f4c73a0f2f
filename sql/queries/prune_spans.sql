-- Of checkpoints older than the retained ones only each partition's newest boundary is kept.
DELETE FROM tidemark.spans s
WHERE s.region = %(region)s AND s.seq < %(oldest)s AND (NOT s.live OR EXISTS (
    SELECT FROM tidemark.spans n WHERE n.partition_id = s.partition_id AND n.live
      AND n.seq > s.seq AND n.seq <= %(oldest)s))
