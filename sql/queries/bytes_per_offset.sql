-- What an offset of each partition weighed when it was read last.
SELECT DISTINCT ON (s.partition_id) s.topic, s.partition, s.bytes::float8 / (s.end_offset - s.start_offset)
FROM tidemark.spans s JOIN tidemark.partitions p USING (partition_id)
WHERE s.region = %(region)s AND p.ended_epoch IS NULL AND s.live AND s.bytes IS NOT NULL
ORDER BY s.partition_id, s.seq DESC
