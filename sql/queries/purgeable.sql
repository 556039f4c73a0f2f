-- The dead letters that a purge would remove, by reason; and those that it leaves, for without the rows that
-- the target refused verify can't tell a refused row from a lost one.
SELECT d.reason, count(*) FILTER (WHERE d.refused_rows IS NULL), count(d.refused_rows) FROM tidemark.dead_letters d JOIN tidemark.batches b USING (region, seq)
WHERE d.region = %(region)s
  AND d.reason = ANY (coalesce(%(reasons)s::text[], ARRAY[d.reason]))
  AND b.published_at >= coalesce(%(since)s::timestamptz, '-infinity')
  AND b.published_at < coalesce(%(until)s::timestamptz, 'infinity')
  AND d.topic = coalesce(%(only_topic)s, d.topic)
  AND d.partition = coalesce(%(only_partition)s::int, d.partition)
GROUP BY d.reason ORDER BY 2 DESC, 1
