-- Replays of dead letters, and of a batch that is read again.

-- name: batch_replay_aside
-- Records of a batch that a replay has made rows of.
SELECT topic, partition, "offset" FROM tidemark.dead_letters
WHERE region = %(region)s AND seq = %(seq)s AND replayed_seq IS NOT NULL

-- name: batch_replay_facts
-- Whether a batch is published and retained, what it is of, how many of its dead letters were purged, and whether rows
-- of it were upserted.
SELECT b.kind, b.seq >= r.oldest_seq, b.dead_letters_purged,
       EXISTS (SELECT FROM tidemark.batch_targets t
               WHERE t.region = b.region AND t.seq = b.seq AND t.key IS NOT NULL)
FROM tidemark.batches b JOIN tidemark.regions r USING (region)
WHERE b.region = %(region)s AND b.seq = %(seq)s AND b.state = 'published'

-- name: batch_replay_outcome
-- What the replay of a batch has left whose COMMIT had no answer; nothing, if it did not happen.
SELECT rows_moved, dead_letters_moved FROM tidemark.batches
WHERE region = %(region)s AND seq = %(seq)s AND again_seq = %(staged_seq)s

-- name: replace_contribution
-- Each span of a published batch was read anew, with as many records as at the first time.
UPDATE tidemark.spans s
SET contribution = %(contribution)s, attempt = c.attempt, dead_letters = c.dead_letters, bytes = c.bytes
FROM unnest(%(topics)s::text[], %(partitions)s::int[], %(starts)s::bigint[], %(ends)s::bigint[],
            %(attempts)s::bigint[], %(records)s::bigint[], %(dead_letters)s::bigint[], %(bytes)s::bigint[])
    AS c (topic, partition, start_offset, end_offset, attempt, records, dead_letters, bytes)
WHERE s.region = %(region)s AND s.seq = %(seq)s AND s.topic = c.topic AND s.partition = c.partition
  AND s.start_offset = c.start_offset AND s.end_offset = c.end_offset AND s.records = c.records

-- name: replace_contribution_alone
-- The contributions that the spans had before.
DELETE FROM tidemark.contributions
WHERE region = %(region)s AND seq = %(seq)s AND contribution <> %(contribution)s

-- name: mark_replayed
-- What is left of the chosen dead letters became rows: each by compare-and-set.
UPDATE tidemark.dead_letters SET replayed_seq = %(seq)s
WHERE region = %(region)s AND chosen_seq = %(seq)s AND replayed_seq IS NULL

-- name: publish_batch_replay
-- The counts are those of the rows that came; the named CHECK constraints refuse others than were contributed. Of a
-- batch whose dead letters were purged meanwhile nobody knows which a replay had made rows of.
UPDATE tidemark.batches b
SET rows_contributed = (SELECT coalesce(sum(r.rows), 0) FROM tidemark.contributions c, unnest(c.rows) AS r (rows)
                        WHERE c.region = b.region AND c.seq = b.seq),
    (rows_moved, rows_refused, rows_deleted, rows_superseded) = (
        SELECT coalesce(sum(t.rows_moved), 0), coalesce(sum(t.rows_refused), 0), coalesce(sum(t.rows_deleted), 0),
               coalesce(sum(t.rows_superseded), 0)
        FROM tidemark.batch_targets t WHERE t.region = b.region AND t.seq = b.seq),
    records_refused = 0,
    dead_letters_contributed = (SELECT sum(s.dead_letters) FROM tidemark.spans s
                                WHERE s.region = b.region AND s.seq = b.seq),
    dead_letters_moved = %(dead_letters)s + b.dead_letters_replayed,
    again_seq = %(staged_seq)s
WHERE b.region = %(region)s AND b.seq = %(seq)s AND b.state = 'published' AND b.kind = 'drain'
  AND b.dead_letters_purged = 0
RETURNING b.dead_letters_moved

-- name: publish_batch_replay_targets
-- The counts of the rows that went.
DELETE FROM tidemark.batch_targets WHERE region = %(region)s AND seq = %(seq)s

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

-- name: published_of
-- What a batch has published that is there: rows by target, and dead letters that are none of a replay's rows.
SELECT (SELECT coalesce(jsonb_object_agg(t.target, t.rows_moved), '{}') FROM tidemark.batch_targets t
        WHERE t.region = b.region AND t.seq = b.seq),
       b.dead_letters_moved - b.dead_letters_purged - b.dead_letters_replayed
FROM tidemark.batches b WHERE b.region = %(region)s AND b.seq = %(seq)s AND b.state = 'published'

-- name: published_spans
-- The spans of a checkpoint with what was counted in them, and whether an open has ended their history
-- or a later one since: then other records may be there. Where the last record ended, if they held one.
SELECT s.topic, s.partition, s.start_offset, s.end_offset, s.topic_id, s.records, s.dead_letters,
       EXISTS (SELECT FROM tidemark.partitions e
               WHERE e.region = s.region AND e.topic = s.topic AND e.partition = s.partition
                 AND e.partition_id >= s.partition_id AND e.ended_epoch IS NOT NULL AND e.ended_seq IS NULL),
       CASE WHEN s.record_end > s.start_offset THEN s.record_end END,
       CASE WHEN s.record_end > s.start_offset THEN s.leader_epoch END
FROM tidemark.spans s
WHERE s.region = %(region)s AND s.seq = %(seq)s AND s.live ORDER BY s.topic, s.partition

-- name: remove_dead_letters
-- The dead letters of a batch go, but those that a replay has made rows of.
DELETE FROM tidemark.dead_letters WHERE region = %(region)s AND seq = %(seq)s AND replayed_seq IS NULL

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

-- name: free_staged_seq
-- Its place is free again; nothing, if an open or a reset has discarded it.
DELETE FROM tidemark.batches
WHERE region = %(region)s AND seq = %(staged_seq)s AND epoch = %(epoch)s AND state = 'planned' AND kind = 'again'

-- name: unreplayable
-- How many dead letters are meant of which the ledger does not have the whole record.
SELECT count(*) FROM tidemark.dead_letters d JOIN tidemark.batches b USING (region, seq)
WHERE d.region = %(region)s AND d.replayed_seq IS NULL AND (d.refused_rows IS NOT NULL OR d.headers IS NULL)
  AND d.reason = ANY (coalesce(%(reasons)s::text[], ARRAY[d.reason]))
  AND b.published_at >= coalesce(%(since)s::timestamptz, '-infinity')
  AND b.published_at < coalesce(%(until)s::timestamptz, 'infinity')
  AND d.topic = coalesce(%(only_topic)s, d.topic)
  AND d.partition = coalesce(%(only_partition)s::int, d.partition)

-- name: write_batch_replay
-- An unpublished batch that keeps the place of what is staged for a published one.
INSERT INTO tidemark.batches (region, seq, epoch, previous_seq, in_flight, kind)
SELECT r.region, %(staged_seq)s, r.epoch, r.head_seq, 1, 'again'
FROM tidemark.regions r WHERE r.region = %(region)s AND r.epoch = %(epoch)s

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
