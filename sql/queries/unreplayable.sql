-- How many dead letters are meant of which the ledger does not have the whole record.
SELECT count(*) FROM tidemark.dead_letters d JOIN tidemark.batches b USING (region, seq)
WHERE d.region = %(region)s AND d.replayed_seq IS NULL AND (d.refused_rows IS NOT NULL OR d.headers IS NULL)
  AND d.reason = ANY (coalesce(%(reasons)s::text[], ARRAY[d.reason]))
  AND b.published_at >= coalesce(%(since)s::timestamptz, '-infinity')
  AND b.published_at < coalesce(%(until)s::timestamptz, 'infinity')
  AND d.topic = coalesce(%(only_topic)s, d.topic)
  AND d.partition = coalesce(%(only_partition)s::int, d.partition)
