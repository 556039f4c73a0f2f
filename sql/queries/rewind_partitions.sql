-- Each partition goes back to its newest live span, or to its initial offset; its log was read up to the last record of
-- that span or of one before it.
UPDATE tidemark.partitions p
SET next_offset = coalesce(s.end_offset, p.initial_offset), seq = coalesce(s.seq, 0),
    record_end = r.record_end, leader_epoch = r.leader_epoch
FROM tidemark.partitions q
LEFT JOIN LATERAL (SELECT n.end_offset, n.seq FROM tidemark.spans n
                   WHERE n.partition_id = q.partition_id AND n.live ORDER BY n.seq DESC LIMIT 1) s ON true
LEFT JOIN LATERAL (SELECT n.record_end, n.leader_epoch FROM tidemark.spans n
                   WHERE n.partition_id = q.partition_id AND n.live AND n.record_end IS NOT NULL
                   ORDER BY n.seq DESC LIMIT 1) r ON true
WHERE q.region = %(region)s AND q.ended_epoch IS NULL AND p.partition_id = q.partition_id
