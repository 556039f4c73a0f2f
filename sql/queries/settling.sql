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
INSERT INTO tidemark.resets (region, epoch, requested_by, why, run_id, request_id, resetting, discarded_seqs, from_seq,
                             to_seq, batches, rows_expected, dead_letters_expected, overrides)
VALUES (%(region)s, %(epoch)s, %(requested_by)s, %(why)s, %(run_id)s, %(request_id)s, %(resetting)s,
        %(discarded_seqs)s, %(head_seq)s, %(to_seq)s,
        (SELECT count(*) FROM tidemark.batches
         WHERE region = %(region)s AND seq > %(to_seq)s AND state = 'published'), %(rows)s, %(dead_letters)s, %(overrides)s)

-- name: write_reset_count
-- A reset by hand clears the count of consecutive ones; the DAG's own adds to it.
UPDATE tidemark.regions
SET consecutive_resets = CASE WHEN %(by_hand)s THEN 0 ELSE consecutive_resets + 1 END
WHERE region = %(region)s

-- name: write_run
-- One epoch's work.
INSERT INTO tidemark.runs
    (region, epoch, run_id, opening, max_records, max_bytes, max_batches, max_seconds, in_flight,
     dead_letters_max_ratio, dead_letters_max_count, backlog, overrides, remarks)
VALUES (%(region)s, %(epoch)s, %(run_id)s, %(opening)s, %(max_records)s, %(max_bytes)s, %(max_batches)s,
        %(max_seconds)s, %(in_flight)s, %(dead_letters_max_ratio)s, %(dead_letters_max_count)s, %(backlog)s, %(overrides)s, %(remarks)s)

-- name: write_target_offsets
-- A run drains up to these and stops.
INSERT INTO tidemark.run_targets (region, epoch, topic, partition, target_offset, high_watermark, stable_since)
SELECT %(region)s, %(epoch)s, t.topic, t.partition, t.target_offset, t.high_watermark,
       coalesce(t.since, clock_timestamp())
FROM unnest(%(topics)s::text[], %(partitions)s::int[], %(offsets)s::bigint[], %(high_watermarks)s::bigint[],
            %(since)s::timestamptz[]) AS t (topic, partition, target_offset, high_watermark, since)
