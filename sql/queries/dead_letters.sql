-- Dead letters, newest first; a filter or a limit of null is none.
SELECT d.seq, d.topic, d.partition, d."offset", d.timestamp_ms, d.key, d.value, d.headers, d.reason, d.detail,
       d.hash, d.whole_bytes, d.refused_rows, b.published_at, d.replayed_seq
FROM tidemark.dead_letters d JOIN tidemark.batches b USING (region, seq)
WHERE d.region = %(region)s AND d.replayed_seq IS NULL
  AND d.reason = ANY (coalesce(%(reasons)s::text[], ARRAY[d.reason]))
  AND b.published_at >= coalesce(%(since)s::timestamptz, '-infinity')
  AND b.published_at < coalesce(%(until)s::timestamptz, 'infinity')
  AND d.topic = coalesce(%(only_topic)s, d.topic)
  AND d.partition = coalesce(%(only_partition)s::int, d.partition)
ORDER BY d.seq DESC, d.topic, d.partition, d."offset" DESC LIMIT %(limit)s
