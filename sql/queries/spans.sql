-- The plan of a batch, who claimed what, and the leader epoch of the record before each span.
SELECT s.topic, s.partition, s.start_offset, s.end_offset, s.topic_id, s.contribution, p.leader_epoch
FROM tidemark.spans s JOIN tidemark.partitions p USING (partition_id)
WHERE s.region = %(region)s AND s.seq = %(seq)s ORDER BY s.topic, s.partition
