-- Every dead letter that is meant beside their number: one statement is one snapshot.
DECLARE dead_letters_export NO SCROLL CURSOR FOR
WITH meant AS MATERIALIZED (
    SELECT d.partition_id, d."offset", b.published_at
    FROM tidemark.dead_letters d JOIN tidemark.batches b USING (region, seq)
    WHERE d.region = %(region)s
      AND d.reason = ANY (coalesce(%(reasons)s::text[], ARRAY[d.reason]))
      AND b.published_at >= coalesce(%(since)s::timestamptz, '-infinity')
      AND b.published_at < coalesce(%(until)s::timestamptz, 'infinity')
      AND d.topic = coalesce(%(only_topic)s, d.topic)
      AND d.partition = coalesce(%(only_partition)s::int, d.partition)
)
SELECT d.seq, d.topic, d.partition, d."offset", d.timestamp_ms, d.key, d.value, d.headers, d.reason, d.detail,
       d.hash, d.whole_bytes, d.refused_rows, m.published_at, d.replayed_seq, (SELECT count(*) FROM meant)
FROM meant m JOIN tidemark.dead_letters d USING (partition_id, "offset")
ORDER BY partition_id, "offset"
