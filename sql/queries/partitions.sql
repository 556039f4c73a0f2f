-- The merged checkpoint of the head, partition by partition, quiet ones included.
SELECT topic, partition, topic_id, initial_offset, next_offset, seq, leader_epoch, record_end
FROM tidemark.partitions
WHERE region = %(region)s AND ended_epoch IS NULL ORDER BY topic, partition
