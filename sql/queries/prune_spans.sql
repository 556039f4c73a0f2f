-- Of checkpoints older than the retained ones only each partition's newest boundary is kept.
DELETE FROM tidemark.spans s
WHERE s.region = %(region)s AND s.seq < %(oldest)s AND (NOT s.live OR s.seq < (
    SELECT max(n.seq) FROM tidemark.spans n
    WHERE n.partition_id = s.partition_id AND n.live AND n.seq <= %(oldest)s))
