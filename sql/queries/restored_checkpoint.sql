-- Where a rewind to a seq puts each partition: at its newest live span up to there, or at its initial offset.
SELECT r.epoch, %(seq)s::bigint, p.topic, p.partition, coalesce(s.end_offset, p.initial_offset),
       r.fingerprint->>'output.topic', p.topic_id, p.next_offset
FROM tidemark.regions r
LEFT JOIN tidemark.partitions p ON p.region = r.region AND p.ended_epoch IS NULL
LEFT JOIN LATERAL (SELECT n.end_offset FROM tidemark.spans n
                   WHERE n.partition_id = p.partition_id AND n.live AND n.seq <= %(seq)s
                   ORDER BY n.seq DESC LIMIT 1) s ON true
WHERE r.region = %(region)s ORDER BY p.topic, p.partition
