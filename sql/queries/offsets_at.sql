-- The merged checkpoint at a seq: where each partition of that time stood, from its newest live span up to there.
-- A history ends at an open, before the batches of its epoch, or at a corrupt range, between two of them.
WITH histories AS (
    SELECT DISTINCT ON (p.topic, p.partition) p.partition_id, p.topic, p.partition, p.initial_offset
    FROM tidemark.partitions p
    LEFT JOIN tidemark.batches b ON b.region = p.region AND b.seq = %(seq)s
    WHERE p.region = %(region)s AND (p.ended_epoch IS NULL OR p.ended_epoch > b.epoch
        OR (p.ended_epoch = b.epoch AND p.ended_seq >= b.seq))
    ORDER BY p.topic, p.partition, p.partition_id
)
SELECT h.topic, h.partition, coalesce(s.end_offset, h.initial_offset)
FROM histories h
LEFT JOIN LATERAL (SELECT n.end_offset FROM tidemark.spans n
                   WHERE n.partition_id = h.partition_id AND n.live AND n.seq <= %(seq)s
                   ORDER BY n.seq DESC LIMIT 1) s ON true
ORDER BY h.topic, h.partition
