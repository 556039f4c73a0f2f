-- The plan of a batch, who claimed what, and where the last record before each span ended.
SELECT s.topic, s.partition, s.start_offset, s.end_offset, s.topic_id, s.contribution, p.record_end, p.leader_epoch
FROM tidemark.spans s JOIN tidemark.partitions p USING (partition_id)
WHERE s.region = %(region)s AND s.seq = %(seq)s ORDER BY s.topic, s.partition
