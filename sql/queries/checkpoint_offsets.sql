-- The merged checkpoint at a seq: where each partition stood, from its live spans up to there.
SELECT p.topic, p.partition, coalesce(max(s.end_offset), p.initial_offset)
FROM tidemark.partitions p
LEFT JOIN tidemark.spans s ON s.partition_id = p.partition_id AND s.live AND s.seq <= %(seq)s
WHERE p.region = %(region)s GROUP BY p.partition_id ORDER BY p.topic, p.partition
