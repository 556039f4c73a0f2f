-- The merged checkpoint at a seq: where each partition of that time stood, from its newest live span up to there.
WITH histories AS (
    SELECT DISTINCT ON (p.topic, p.partition) p.partition_id, p.topic, p.partition, p.initial_offset
    FROM tidemark.partitions p
    WHERE p.region = %(region)s AND (p.ended_epoch IS NULL OR p.ended_epoch >
        (SELECT b.epoch FROM tidemark.batches b WHERE b.region = %(region)s AND b.seq = %(seq)s))
    ORDER BY p.topic, p.partition, p.ended_epoch
)
SELECT h.topic, h.partition, coalesce(s.end_offset, h.initial_offset)
FROM histories h
LEFT JOIN LATERAL (SELECT n.end_offset FROM tidemark.spans n
                   WHERE n.partition_id = h.partition_id AND n.live AND n.seq <= %(seq)s
                   ORDER BY n.seq DESC LIMIT 1) s ON true
ORDER BY h.topic, h.partition
