-- What an offset of each partition weighed when it was read last.
SELECT p.topic, p.partition, s.weight
FROM tidemark.partitions p CROSS JOIN LATERAL (
    SELECT n.bytes::float8 / (n.end_offset - n.start_offset) AS weight FROM tidemark.spans n
    WHERE n.partition_id = p.partition_id AND n.live AND n.bytes IS NOT NULL ORDER BY n.seq DESC LIMIT 1) s
WHERE p.region = %(region)s AND p.ended_epoch IS NULL
