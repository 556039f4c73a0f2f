-- The newest checkpoint at or below these offsets in every partition; 0 is the initial state.
WITH above AS (
    SELECT min(s.seq) AS seq FROM tidemark.spans s
    JOIN unnest(%(topics)s::text[], %(partitions)s::int[], %(offsets)s::bigint[]) AS t (topic, partition, at)
        ON t.topic = s.topic AND t.partition = s.partition
    WHERE s.region = %(region)s AND s.live AND s.contribution IS NOT NULL AND s.end_offset > t.at
)
SELECT coalesce(max(b.seq), 0) FROM tidemark.batches b, above
WHERE b.region = %(region)s AND b.state = 'published' AND (above.seq IS NULL OR b.seq < above.seq)
