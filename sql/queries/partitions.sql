-- The merged checkpoint of the head, partition by partition, quiet ones included.
SELECT topic, partition, topic_id, initial_offset, next_offset, seq FROM tidemark.partitions
WHERE region = %(region)s ORDER BY topic, partition
