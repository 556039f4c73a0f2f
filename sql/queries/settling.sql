-- What an open or a reset decides under the region lock.

-- name: discard_unpublished_batches
-- What is unpublished dies with its epoch; spans and contributions go with it.
DELETE FROM tidemark.batches WHERE region = %(region)s AND state = 'planned' RETURNING seq

-- name: end_histories
-- Told to go on without what Kafka lost: what was read of these partitions stays, their history ends.
UPDATE tidemark.partitions p SET ended_epoch = %(epoch)s
FROM unnest(%(topics)s::text[], %(partitions)s::int[]) AS t (topic, partition)
WHERE p.region = %(region)s AND p.topic = t.topic AND p.partition = t.partition AND p.ended_epoch IS NULL

-- name: find_settled
-- Did the open or the reset whose COMMIT had no answer happen?
SELECT epoch FROM tidemark.runs WHERE opening = %(uuid)s
UNION ALL SELECT epoch FROM tidemark.resets WHERE resetting = %(uuid)s

-- name: forget_targets
-- Targets of which nothing is published, and that the pipeline no longer names.
DELETE FROM tidemark.targets WHERE region = %(region)s AND target <> ALL (%(targets)s)

-- name: log_ends
-- Where the logs ended when the newest run opened.
SELECT topic, partition, target_offset, high_watermark, stable_since FROM tidemark.run_targets
WHERE region = %(region)s
  AND epoch = (SELECT max(n.epoch) FROM tidemark.runs n WHERE n.region = %(region)s)

-- name: supersede_resets
-- A rewind that died half-way, or was overtaken, changes nothing more.
UPDATE tidemark.resets SET state = 'superseded', finished_at = clock_timestamp()
WHERE region = %(region)s AND state = 'started'

-- name: supersede_runs
-- Whoever was open is so no longer.
UPDATE tidemark.runs SET state = 'superseded', closed_at = clock_timestamp()
WHERE region = %(region)s AND state = 'open'

-- name: take_epoch
-- Fence everyone who holds an older epoch.
SELECT tidemark.take_epoch(%(region)s, %(epoch)s, %(seen)s)

-- name: take_epoch_seq
-- A restored ledger gives out no seq that the lost one has published.
UPDATE tidemark.regions SET next_seq = greatest(next_seq, %(seen)s + 1) WHERE region = %(region)s

-- name: write_initial_offsets
-- Written once, before anyone reads; kept for ever.
INSERT INTO tidemark.partitions (region, topic, partition, topic_id, initial_offset, next_offset)
SELECT %(region)s, t.topic, t.partition, t.topic_id, t.initial_offset, t.initial_offset
FROM unnest(%(topics)s::text[], %(partitions)s::int[], %(topic_ids)s::text[], %(offsets)s::bigint[])
    AS t (topic, partition, topic_id, initial_offset)
ON CONFLICT (region, topic, partition) WHERE ended_epoch IS NULL DO NOTHING

-- name: write_made_into
-- The tables that the region's rows go to.
INSERT INTO tidemark.targets (region, target, table_name, table_oid, key_forms)
SELECT %(region)s, t.target, t.table_name, t.table_oid, t.key_forms
FROM unnest(%(targets)s::text[], %(tables)s::text[], %(oids)s::oid[], %(key_forms)s::jsonb[])
    AS t (target, table_name, table_oid, key_forms)
ON CONFLICT (region, target) DO UPDATE
    SET table_name = EXCLUDED.table_name, table_oid = EXCLUDED.table_oid, key_forms = EXCLUDED.key_forms

-- name: write_made_with
-- What the region's rows are made with, and the cluster that its offsets belong to.
UPDATE tidemark.regions SET fingerprint = %(fingerprint)s, cluster_id = %(cluster_id)s
WHERE region = %(region)s

-- name: write_reset
-- The audit row of a reset, with what a rewind has to remove.
INSERT INTO tidemark.resets (region, epoch, kind, requested_by, why, run_id, request_id, resetting, discarded_seqs, from_seq,
                             to_seq, batches, rows_expected, dead_letters_expected, overrides)
VALUES (%(region)s, %(epoch)s, %(kind)s, %(requested_by)s, %(why)s, %(run_id)s, %(request_id)s, %(resetting)s,
        %(discarded_seqs)s, %(head_seq)s, %(to_seq)s,
        (SELECT count(*) FROM tidemark.batches
         WHERE region = %(region)s AND seq > %(to_seq)s AND state = 'published'), %(rows)s, %(dead_letters)s, %(overrides)s)

-- name: write_reset_count
-- A reset by hand clears the count of consecutive ones; the DAG's own adds to it.
UPDATE tidemark.regions
SET consecutive_resets = CASE WHEN %(by_hand)s THEN 0 ELSE consecutive_resets + 1 END
WHERE region = %(region)s

-- name: unread
-- Since when deletions of each partition may have waited to be read, and the shortest time (ms) for which its topic kept
-- deletions meanwhile. It is since the newest open that saw the log end where the ledger stands or before it, or with
-- which a person accepted what may be gone; else since the region first knew this log. Reads what is kept of the newest
-- runs, and of older ones only where in none of these everything was read. Nothing is read twice.
WITH logs AS (
    SELECT topic, partition, next_offset, ended_epoch,
           CASE WHEN count(*) OVER of_log = count(known_since) OVER of_log THEN min(known_since) OVER of_log END AS since
    FROM tidemark.partitions WHERE region = %(region)s WINDOW of_log AS (PARTITION BY topic, partition, topic_id)
), stand AS MATERIALIZED (
    SELECT topic, partition, next_offset, since FROM logs WHERE ended_epoch IS NULL
), opens AS NOT MATERIALIZED (
    SELECT t.topic, t.partition, t.epoch, n.opened_at, coalesce(n.asked_at, n.opened_at) AS at,
           t.deletions_kept_ms AS kept_ms, t.deletions_accepted,  -- a run of an older version may not have aimed at the end
           CASE WHEN n.asked_at IS NULL THEN t.high_watermark ELSE t.target_offset END AS log_end
    FROM tidemark.runs n JOIN tidemark.run_targets t USING (region, epoch)
    WHERE n.region = %(region)s AND t.region = %(region)s
), begin AS (
    SELECT epoch FROM tidemark.runs WHERE region = %(region)s ORDER BY epoch DESC OFFSET 20 LIMIT 1
), newer AS MATERIALIZED (
    SELECT * FROM opens WHERE epoch > coalesce((SELECT epoch FROM begin), 0)
), read_newer AS (
    SELECT o.epoch FROM newer o JOIN stand s USING (topic, partition)
    WHERE o.opened_at >= coalesce(s.since, '-infinity') AND (o.deletions_accepted OR o.log_end <= s.next_offset)
    GROUP BY o.epoch HAVING count(*) = (SELECT count(*) FROM stand)
), older AS MATERIALIZED (
    SELECT * FROM opens
    WHERE epoch <= (SELECT epoch FROM begin) AND (SELECT epoch FROM begin) IS NOT NULL AND NOT EXISTS (SELECT FROM read_newer)
), seen AS MATERIALIZED (
    SELECT o.topic, o.partition, o.epoch, o.at, o.kept_ms, o.deletions_accepted OR o.log_end <= s.next_offset AS is_read
    FROM (SELECT * FROM newer UNION ALL SELECT * FROM older) o JOIN stand s USING (topic, partition)
    WHERE o.opened_at >= coalesce(s.since, '-infinity')
), newest AS (
    SELECT topic, partition, max(epoch) AS epoch FROM seen WHERE is_read GROUP BY topic, partition
), since AS (
    SELECT o.topic, o.partition, max(o.at) FILTER (WHERE o.epoch = l.epoch) AS at, min(o.kept_ms) AS kept_ms
    FROM seen o LEFT JOIN newest l USING (topic, partition)
    WHERE o.epoch >= coalesce(l.epoch, 0) GROUP BY o.topic, o.partition
)
SELECT s.topic, s.partition, coalesce(w.at, s.since, r.created_at), w.kept_ms
FROM stand s JOIN tidemark.regions r ON r.region = %(region)s LEFT JOIN since w USING (topic, partition)

-- name: write_run
-- One epoch's work.
INSERT INTO tidemark.runs
    (region, epoch, run_id, opening, max_records, max_bytes, max_batches, max_seconds, batch_seconds, in_flight,
     dead_letters_max_ratio, dead_letters_max_count, backlog, overrides, remarks, asked_at, deletions_until)
VALUES (%(region)s, %(epoch)s, %(run_id)s, %(opening)s, %(max_records)s, %(max_bytes)s, %(max_batches)s,
        %(max_seconds)s, %(batch_seconds)s, %(in_flight)s, %(dead_letters_max_ratio)s, %(dead_letters_max_count)s, %(backlog)s, %(overrides)s, %(remarks)s, %(asked_at)s,
        clock_timestamp() + make_interval(secs => %(deletions_seconds)s::float8))

-- name: write_target_offsets
-- A run drains up to these and stops.
INSERT INTO tidemark.run_targets (region, epoch, topic, partition, target_offset, high_watermark,
                                  stable_since, deletions_kept_ms, deletions_accepted)
SELECT %(region)s, %(epoch)s, t.topic, t.partition, t.target_offset, t.high_watermark,
       coalesce(t.since, clock_timestamp()), t.deletions_kept_ms, t.deletions_accepted
FROM unnest(%(topics)s::text[], %(partitions)s::int[], %(offsets)s::bigint[], %(high_watermarks)s::bigint[],
            %(since)s::timestamptz[], %(kept)s::bigint[], %(accepted)s::boolean[])
    AS t (topic, partition, target_offset, high_watermark, since, deletions_kept_ms, deletions_accepted)
