-- The spans of a checkpoint with what was counted in them, and whether an open has ended their history
-- or a later one since: then other records may be there. Where the last record ended, if they held one.
SELECT s.topic, s.partition, s.start_offset, s.end_offset, s.topic_id, s.records, s.dead_letters,
       EXISTS (SELECT FROM tidemark.partitions e
               WHERE e.region = s.region AND e.topic = s.topic AND e.partition = s.partition
                 AND e.partition_id >= s.partition_id AND e.ended_epoch IS NOT NULL AND e.ended_seq IS NULL),
       CASE WHEN s.record_end > s.start_offset THEN s.record_end END,
       CASE WHEN s.record_end > s.start_offset THEN s.leader_epoch END
FROM tidemark.spans s
WHERE s.region = %(region)s AND s.seq = %(seq)s AND s.live ORDER BY s.topic, s.partition
