-- The spans of a checkpoint with what was counted in them.
SELECT topic, partition, start_offset, end_offset, topic_id, records, dead_letters FROM tidemark.spans
WHERE region = %(region)s AND seq = %(seq)s AND live ORDER BY topic, partition
