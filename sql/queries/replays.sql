-- Replays of dead letters. Older versions also read a published batch again: tidemark.batches keeps its `again_seq`, and the
-- kind `again` of what they had planned, which the next open or reset discards. Nothing reads either.

-- name: mark_replayed
-- What is left of the chosen dead letters became rows: each by compare-and-set.
UPDATE tidemark.dead_letters SET replayed_seq = %(seq)s
WHERE region = %(region)s AND chosen_seq = %(seq)s AND replayed_seq IS NULL

-- name: publish_replay
-- The named CHECK constraints refuse a replay whose counts are not those of what it chose and staged.
UPDATE tidemark.batches b
SET state = 'published', published_at = clock_timestamp(),
    rows_contributed = (SELECT coalesce(sum(r.rows), 0) FROM tidemark.contributions c, unnest(c.rows) AS r (rows)
                        WHERE c.region = b.region AND c.seq = b.seq),
    (rows_moved, rows_refused, rows_deleted, rows_superseded) = (
        SELECT coalesce(sum(t.rows_moved), 0), coalesce(sum(t.rows_refused), 0), coalesce(sum(t.rows_deleted), 0),
               coalesce(sum(t.rows_superseded), 0)
        FROM tidemark.batch_targets t WHERE t.region = b.region AND t.seq = b.seq),
    dead_letters_contributed = %(dead_letters)s, dead_letters_moved = 0,
    letters_replayed = %(replayed)s, letters_kept = %(kept)s
WHERE b.region = %(region)s AND b.seq = %(seq)s AND b.epoch = %(epoch)s AND b.state = 'planned' AND b.kind = 'replay'

-- name: publish_replay_counts
-- The batches that the dead letters came with count those that were replayed.
UPDATE tidemark.batches b SET dead_letters_replayed = b.dead_letters_replayed + g.letters
FROM (SELECT seq, count(*) AS letters FROM tidemark.dead_letters
      WHERE region = %(region)s AND replayed_seq = %(seq)s GROUP BY seq) g
WHERE b.region = %(region)s AND b.seq = g.seq

-- name: published_spans
-- The spans of a checkpoint with what was counted in them, and whether an open has ended their history
-- or a later one since: then other records may be there.
SELECT s.topic, s.partition, s.start_offset, s.end_offset, s.topic_id, s.records, s.dead_letters,
       EXISTS (SELECT FROM tidemark.partitions e
               WHERE e.region = s.region AND e.topic = s.topic AND e.partition = s.partition
                 AND e.partition_id >= s.partition_id AND e.ended_epoch IS NOT NULL AND e.ended_seq IS NULL)
FROM tidemark.spans s
WHERE s.region = %(region)s AND s.seq = %(seq)s AND s.live ORDER BY s.topic, s.partition

-- name: spans_since
-- The spans of checkpoints that were published at a time or later, as published_spans tells them, in the order of seqs.
SELECT b.seq, b.published_at, s.topic, s.partition, s.start_offset, s.end_offset, s.topic_id, s.records, s.dead_letters,
       EXISTS (SELECT FROM tidemark.partitions e
               WHERE e.region = s.region AND e.topic = s.topic AND e.partition = s.partition
                 AND e.partition_id >= s.partition_id AND e.ended_epoch IS NOT NULL AND e.ended_seq IS NULL)
FROM tidemark.batches b JOIN tidemark.spans s ON s.region = b.region AND s.seq = b.seq AND s.live
WHERE b.region = %(region)s AND b.state = 'published' AND b.published_at >= %(since)s
ORDER BY b.seq, s.topic, s.partition

-- name: replay_outcome
-- What a replay has published whose COMMIT had no answer.
SELECT letters_replayed, letters_kept, rows_moved FROM tidemark.batches
WHERE region = %(region)s AND seq = %(seq)s AND state <> 'planned'

-- name: replayable
-- What `write_replay_dead_letters` would choose, for a dry run.
DECLARE dead_letters_export NO SCROLL CURSOR FOR
WITH meant AS MATERIALIZED (
    SELECT r.partition_id, r."offset", r.kept_seq
    FROM tidemark.replayable(%(region)s, %(reasons)s::text[], %(since)s::timestamptz, %(until)s::timestamptz,
                             %(only_topic)s, %(only_partition)s::int) r
    ORDER BY r.kept_seq NULLS FIRST, r.partition_id, r."offset" LIMIT %(limit)s
)
SELECT d.seq, d.topic, d.partition, d."offset", d.timestamp_ms, d.key, d.value, d.headers, d.reason, d.detail,
       d.hash, d.whole_bytes, d.refused_rows, b.published_at, d.replayed_seq, (SELECT count(*) FROM meant)
FROM meant m JOIN tidemark.dead_letters d USING (partition_id, "offset") JOIN tidemark.batches b USING (region, seq)

-- name: replayed_spans
-- The spans that the dead letters of a published replay lie in.
SELECT topic, partition, min("offset"), upper(int8range(min("offset"), max("offset"), '[]'))
FROM tidemark.dead_letters WHERE region = %(region)s AND replayed_seq = %(seq)s
GROUP BY topic, partition ORDER BY topic, partition

-- name: stored_records
-- Records as their dead letters keep them: those that a replay has chosen, or those that became its rows.
SELECT topic, partition, "offset", timestamp_ms, key, value, headers, hash, whole_bytes FROM tidemark.dead_letters
WHERE region = %(region)s AND topic = %(topic)s AND partition = %(partition)s
  AND "offset" >= %(start)s AND "offset" < %(end)s
  AND CASE WHEN %(is_proof)s THEN replayed_seq = %(seq)s ELSE chosen_seq = %(seq)s AND replayed_seq IS NULL END
ORDER BY "offset"

-- name: unreplayable
-- How many dead letters are meant of which the ledger does not have the whole record.
SELECT count(*) FROM tidemark.dead_letters d JOIN tidemark.batches b USING (region, seq)
WHERE d.region = %(region)s AND d.replayed_seq IS NULL AND (d.refused_rows IS NOT NULL OR d.headers IS NULL)
  AND d.reason = ANY (coalesce(%(reasons)s::text[], ARRAY[d.reason]))
  AND b.published_at >= coalesce(%(since)s::timestamptz, '-infinity')
  AND b.published_at < coalesce(%(until)s::timestamptz, 'infinity')
  AND d.topic = coalesce(%(only_topic)s, d.topic)
  AND d.partition = coalesce(%(only_partition)s::int, d.partition)

-- name: write_replay_batch
-- A batch of dead letters: it follows the head, and has no spans.
INSERT INTO tidemark.batches (region, seq, epoch, previous_seq, in_flight, kind, records)
SELECT r.region, %(seq)s, r.epoch, r.head_seq, 1, 'replay', %(records)s
FROM tidemark.regions r WHERE r.region = %(region)s AND r.epoch = %(epoch)s

-- name: write_replay_dead_letters
-- The dead letters that a replay chooses, those first that none has tried, and the spans that they lie in.
WITH meant AS (
    SELECT r.partition_id, r."offset"
    FROM tidemark.replayable(%(region)s, %(reasons)s::text[], %(since)s::timestamptz, %(until)s::timestamptz,
                             %(only_topic)s, %(only_partition)s::int) r
    ORDER BY r.kept_seq NULLS FIRST, r.partition_id, r."offset" LIMIT %(limit)s
), chosen AS (
    UPDATE tidemark.dead_letters d SET chosen_seq = %(seq)s FROM meant m
    WHERE d.partition_id = m.partition_id AND d."offset" = m."offset"
    RETURNING d.topic, d.partition, d."offset"
)
SELECT topic, partition, min("offset"), upper(int8range(min("offset"), max("offset"), '[]')), count(*)
FROM chosen GROUP BY topic, partition ORDER BY topic, partition
