-- The newest checkpoint at or below these offsets in every partition; 0 is the initial state.
-- Offsets of a history that ended name other records.
WITH above AS (
    SELECT min(s.seq) AS seq FROM tidemark.spans s
    JOIN tidemark.partitions p USING (partition_id)
    JOIN unnest(%(topics)s::text[], %(partitions)s::int[], %(offsets)s::bigint[]) AS t (topic, partition, at)
        ON t.topic = p.topic AND t.partition = p.partition
    WHERE p.region = %(region)s AND p.ended_epoch IS NULL
      AND s.live AND s.contribution IS NOT NULL AND s.end_offset > t.at
)
SELECT coalesce(max(b.seq), 0) FROM tidemark.batches b, above
WHERE b.region = %(region)s AND b.state = 'published' AND (above.seq IS NULL OR b.seq < above.seq)
