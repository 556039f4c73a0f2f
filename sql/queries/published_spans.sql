-- The spans of a checkpoint with what was counted in them, and whether their history has ended since.
SELECT s.topic, s.partition, s.start_offset, s.end_offset, s.topic_id, s.records, s.dead_letters,
       p.ended_epoch IS NOT NULL
FROM tidemark.spans s JOIN tidemark.partitions p USING (partition_id)
WHERE s.region = %(region)s AND s.seq = %(seq)s AND s.live ORDER BY s.topic, s.partition
