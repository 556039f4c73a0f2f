-- Offsets that a person accepted as lost: between the end of a history and the next one of the same topic.
SELECT p.topic, p.partition, p.next_offset, n.initial_offset, p.ended_epoch
FROM tidemark.partitions p
CROSS JOIN LATERAL (SELECT f.initial_offset, f.topic_id FROM tidemark.partitions f
                    WHERE f.region = p.region AND f.topic = p.topic AND f.partition = p.partition
                      AND f.partition_id > p.partition_id ORDER BY f.partition_id LIMIT 1) n
WHERE p.region = %(region)s AND p.ended_epoch IS NOT NULL AND n.topic_id = p.topic_id
  AND n.initial_offset > p.next_offset
ORDER BY p.topic, p.partition, p.next_offset
