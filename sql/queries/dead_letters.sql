-- Dead letters, one by one.

-- name: dead_letters
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

-- name: export_dead_letters
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

-- name: dead_letter_reasons
-- The reasons that a region's dead letters have.
SELECT DISTINCT reason FROM tidemark.dead_letters WHERE region = %(region)s ORDER BY reason

-- name: open_dead_letters
-- How many dead letters are there, neither purged nor replayed, as `region_status` counts them.
SELECT coalesce(sum(b.dead_letters_moved - b.dead_letters_purged - b.dead_letters_replayed), 0)::bigint
FROM tidemark.batches b
WHERE b.region = %(region)s AND b.state = 'published' AND b.dead_letters_moved > 0

-- name: purge_dead_letters
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

-- name: purgeable
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

-- name: purged_of
-- Dead letters of these batches that a person has purged.
SELECT coalesce(sum(dead_letters_purged), 0)::bigint FROM tidemark.batches
WHERE region = %(region)s AND seq BETWEEN %(first)s AND %(last)s

-- name: sent_dead_letters
-- The dead letters of a batch as they are sent, in the order of their records; also those that became rows since.
DECLARE tidemark_letters NO SCROLL CURSOR FOR
SELECT d.topic, d.partition, d."offset", d.timestamp_ms, d.reason, d.detail, d.hash, d.whole_bytes, d.key, d.value, d.headers
FROM tidemark.dead_letters d
WHERE d.region = %(region)s AND d.seq = %(seq)s ORDER BY d.topic, d.partition, d."offset"

-- name: set_aside_of
-- Dead letters of these batches that may be rows by now: a replay brought them, or their schema was registered since.
SELECT topic, partition, "offset" FROM tidemark.dead_letters
WHERE region = %(region)s AND seq BETWEEN %(first)s AND %(last)s
  AND (replayed_seq IS NOT NULL OR reason = 'UNKNOWN_SCHEMA')
