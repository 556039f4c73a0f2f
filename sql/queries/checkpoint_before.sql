-- The newest checkpoint at or below these offsets in every partition; 0 is the initial state.
-- Offsets of a history that an open ended, and of those before it, name other records.
WITH above AS (
    SELECT min(n.seq) AS seq
    FROM unnest(%(topics)s::text[], %(partitions)s::int[], %(offsets)s::bigint[]) AS t (topic, partition, at)
    JOIN tidemark.partitions p ON p.region = %(region)s AND p.topic = t.topic AND p.partition = t.partition
        AND NOT EXISTS (SELECT FROM tidemark.partitions e
            WHERE e.region = p.region AND e.topic = p.topic AND e.partition = p.partition
              AND e.partition_id >= p.partition_id AND e.ended_epoch IS NOT NULL AND e.ended_seq IS NULL)
    CROSS JOIN LATERAL (SELECT s.seq FROM tidemark.spans s
        WHERE s.partition_id = p.partition_id AND s.live AND s.contribution IS NOT NULL AND s.end_offset > t.at
        ORDER BY s.seq LIMIT 1) n
)
SELECT coalesce((SELECT max(b.seq) FROM tidemark.batches b
                 WHERE b.region = %(region)s AND b.state = 'published'
                   AND b.seq < coalesce(above.seq, 9223372036854775807)), 0)
FROM above
