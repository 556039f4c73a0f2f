-- The dead letters that a purge would remove, by reason; those that it leaves; and those that it leaves because they
-- are not sent yet. Without the rows that the target refused verify can't tell a refused row from a lost one; without
-- a record that was replayed a rewind of the replay would lose it.
SELECT d.reason,
       count(*) FILTER (WHERE d.refused_rows IS NULL AND coalesce(d.replayed_seq < r.oldest_seq, true) AND u.is_sent),
       count(*) FILTER (WHERE d.refused_rows IS NOT NULL OR d.replayed_seq >= r.oldest_seq),
       count(*) FILTER (WHERE NOT u.is_sent)
FROM tidemark.dead_letters d JOIN tidemark.batches b USING (region, seq) JOIN tidemark.regions r USING (region)
CROSS JOIN LATERAL (
    SELECT r.fingerprint->>'dead_letters.topic' IS NULL OR d.seq <= coalesce(r.sent_seq, 0)) u (is_sent)
WHERE d.region = %(region)s
  AND d.reason = ANY (coalesce(%(reasons)s::text[], ARRAY[d.reason]))
  AND b.published_at >= coalesce(%(since)s::timestamptz, '-infinity')
  AND b.published_at < coalesce(%(until)s::timestamptz, 'infinity')
  AND d.topic = coalesce(%(only_topic)s, d.topic)
  AND d.partition = coalesce(%(only_partition)s::int, d.partition)
GROUP BY d.reason ORDER BY 2 DESC, 1
