-- Some dead letters go, and their batches count them: what a rewind removes, and what verify finds, stays equal.
WITH meant AS (
    SELECT d.partition_id, d."offset"
    FROM tidemark.dead_letters d JOIN tidemark.batches b USING (region, seq) JOIN tidemark.regions r USING (region)
    WHERE d.region = %(region)s AND d.refused_rows IS NULL AND coalesce(d.replayed_seq < r.oldest_seq, true)
      AND (r.fingerprint->>'dead_letters.topic' IS NULL OR d.seq <= coalesce(r.sent_seq, 0))
      AND d.reason = ANY (coalesce(%(reasons)s::text[], ARRAY[d.reason]))
      AND b.published_at >= coalesce(%(since)s::timestamptz, '-infinity')
      AND b.published_at < coalesce(%(until)s::timestamptz, 'infinity')
      AND d.topic = coalesce(%(only_topic)s, d.topic)
      AND d.partition = coalesce(%(only_partition)s::int, d.partition)
    ORDER BY d.seq LIMIT %(step)s
), gone AS (
    DELETE FROM tidemark.dead_letters d USING meant m
    WHERE d.partition_id = m.partition_id AND d."offset" = m."offset"
    RETURNING d.seq, d.reason, d.replayed_seq
), counted AS (
    UPDATE tidemark.batches b SET dead_letters_purged = b.dead_letters_purged + g.letters,
        dead_letters_replayed = b.dead_letters_replayed - g.replayed
    FROM (SELECT seq, count(*) AS letters, count(replayed_seq) AS replayed FROM gone GROUP BY seq) g
    WHERE b.region = %(region)s AND b.seq = g.seq
)
SELECT reason, count(*) FROM gone GROUP BY reason
