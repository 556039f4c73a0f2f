-- The dead letters that a replay chooses, and the spans that they lie in. Of two histories of a partition the
-- older one's come first: one replay knows a record by topic, partition and offset.
WITH meant AS (
    SELECT d.partition_id, d."offset" FROM tidemark.dead_letters d JOIN tidemark.batches b USING (region, seq)
    WHERE d.region = %(region)s AND d.replayed_seq IS NULL AND d.refused_rows IS NULL
      AND d.headers IS NOT NULL  -- else they are unknown, and not the record
      AND d.reason = ANY (coalesce(%(reasons)s::text[], ARRAY[d.reason]))
      AND b.published_at >= coalesce(%(since)s::timestamptz, '-infinity')
      AND b.published_at < coalesce(%(until)s::timestamptz, 'infinity')
      AND d.topic = coalesce(%(only_topic)s, d.topic)
      AND d.partition = coalesce(%(only_partition)s::int, d.partition)
      AND NOT EXISTS (SELECT FROM tidemark.dead_letters o
                      WHERE o.region = d.region AND o.topic = d.topic AND o.partition = d.partition
                        AND o."offset" = d."offset" AND o.partition_id < d.partition_id AND o.replayed_seq IS NULL)
    ORDER BY d.partition_id, d."offset" LIMIT %(limit)s
), chosen AS (
    UPDATE tidemark.dead_letters d SET chosen_seq = %(seq)s FROM meant m
    WHERE d.partition_id = m.partition_id AND d."offset" = m."offset"
    RETURNING d.topic, d.partition, d."offset"
)
SELECT topic, partition, min("offset"), upper(int8range(min("offset"), max("offset"), '[]')), count(*)
FROM chosen GROUP BY topic, partition ORDER BY topic, partition
