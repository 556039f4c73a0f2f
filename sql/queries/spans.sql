-- The plan of a batch and who claimed what.
SELECT topic, partition, start_offset, end_offset, topic_id, contribution FROM tidemark.spans
WHERE region = %(region)s AND seq = %(seq)s ORDER BY topic, partition
