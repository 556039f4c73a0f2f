-- Each partition goes back to its newest live span, or to its initial offset.
UPDATE tidemark.partitions p
SET next_offset = coalesce(s.end_offset, p.initial_offset), seq = coalesce(s.seq, 0),
    record_end = s.record_end, leader_epoch = s.leader_epoch
FROM tidemark.partitions q
LEFT JOIN LATERAL (SELECT n.end_offset, n.seq, n.record_end, n.leader_epoch FROM tidemark.spans n
                   WHERE n.partition_id = q.partition_id AND n.live ORDER BY n.seq DESC LIMIT 1) s ON true
WHERE q.region = %(region)s AND q.ended_epoch IS NULL AND p.partition_id = q.partition_id
