-- Regions: made, locked, read and dropped.

-- name: announced
-- Up to where readers were told; whether they were told of more, which a rewind has taken back.
SELECT announced_seq, announced_is_rewound FROM tidemark.regions WHERE region = %(region)s

-- name: create_region
-- A region is made once, by its first open. It waits for a drop of the name: what that leaves is read afterwards.
INSERT INTO tidemark.regions (region, group_id, cluster_id, epoch, next_seq)
VALUES (%(region)s, %(group_id)s, %(cluster_id)s, 0, 1) ON CONFLICT (region) DO NOTHING

-- name: continue_region
-- A region of this name that is gone (dropped, or by an older version renamed) has left zombies behind, and rows with its
-- seqs: their epochs and seqs are not given out again.
UPDATE tidemark.regions r SET epoch = g.epoch, next_seq = g.next_seq
FROM (SELECT max((a.details->>'epoch')::bigint) AS epoch, max((a.details->>'next_seq')::bigint) AS next_seq
      FROM tidemark.actions a WHERE a.region = %(region)s AND a.kind IN ('drop', 'rename')) g
WHERE r.region = %(region)s AND g.epoch IS NOT NULL

-- name: create_targets
-- A region's targets, as its first open knows them; later opens write what they were made with.
INSERT INTO tidemark.targets (region, target, table_name)
SELECT %(region)s, t.target, t.table_name FROM unnest(%(targets)s::text[], %(tables)s::text[]) AS t (target, table_name)
WHERE NOT EXISTS (SELECT FROM tidemark.targets k WHERE k.region = %(region)s)

-- name: drop_region
-- Everything that the ledger has of a region goes; its actions stay.
WITH letters AS (DELETE FROM tidemark.dead_letters WHERE region = %(region)s RETURNING 1),
     keys AS (DELETE FROM tidemark.deleted_keys WHERE region = %(region)s),
     undo AS (DELETE FROM tidemark.undo WHERE region = %(region)s),
     outbox AS (DELETE FROM tidemark.outbox WHERE region = %(region)s),
     refused AS (DELETE FROM tidemark.refused_opens WHERE region = %(region)s),
     doorbells AS (DELETE FROM tidemark.doorbells WHERE region = %(region)s),
     spans AS (DELETE FROM tidemark.spans WHERE region = %(region)s),
     contributions AS (DELETE FROM tidemark.contributions WHERE region = %(region)s),
     batches AS (DELETE FROM tidemark.batches WHERE region = %(region)s RETURNING 1),
     members AS (DELETE FROM tidemark.members WHERE region = %(region)s),
     runs AS (DELETE FROM tidemark.runs WHERE region = %(region)s),
     resets AS (DELETE FROM tidemark.resets WHERE region = %(region)s),
     partitions AS (DELETE FROM tidemark.partitions WHERE region = %(region)s RETURNING 1),
     regions AS (DELETE FROM tidemark.regions WHERE region = %(region)s)
SELECT (SELECT count(*) FROM partitions), (SELECT count(*) FROM batches), (SELECT count(*) FROM letters)

-- name: epoch
-- A look, without lock.
SELECT epoch FROM tidemark.regions WHERE region = %(region)s

-- name: epoch_before
-- The epoch that an open finds: the region's, or the last one of a region of this name that is gone.
SELECT coalesce((SELECT epoch FROM tidemark.regions WHERE region = %(region)s),
                (SELECT max((a.details->>'epoch')::bigint) FROM tidemark.actions a
                 WHERE a.region = %(region)s AND a.kind IN ('drop', 'rename')), 0)

-- name: has_open_run
-- Whether a run, a reset or a rewind is at work under the region's epoch, or died there.
SELECT EXISTS (SELECT FROM tidemark.runs n JOIN tidemark.regions r USING (region, epoch)
               WHERE n.region = %(region)s AND n.state = 'open')
    OR EXISTS (SELECT FROM tidemark.resets s JOIN tidemark.regions r USING (region, epoch)
               WHERE s.region = %(region)s AND s.state = 'started')
    OR EXISTS (SELECT FROM tidemark.batches b WHERE b.region = %(region)s AND b.state = 'planned')

-- name: is_read_back
-- Whether Kafka's offsets were read back as the ledger stands: by the close of the epoch's run, or by its reset; a
-- withholding is finished before it mirrors the head. A region without partitions has none.
SELECT EXISTS (SELECT FROM tidemark.runs n JOIN tidemark.regions r USING (region, epoch)
               WHERE n.region = %(region)s AND n.state = 'closed')
    OR EXISTS (SELECT FROM tidemark.resets s JOIN tidemark.regions r USING (region, epoch)
               WHERE s.region = %(region)s AND s.state = 'finished' AND s.kind <> 'withhold')
    OR NOT EXISTS (SELECT FROM tidemark.partitions p WHERE p.region = %(region)s)

-- name: ledger_is_there
-- Whether any ledger was ever made in this database.
SELECT to_regclass('tidemark.regions') IS NOT NULL

-- name: lock_region
-- First statement of every transaction that decides: one at a time in a region. It waits, and then sees other tables as
-- they were before it: what is decided by is read by the statements behind it.
SELECT region FROM tidemark.regions WHERE region = %(region)s FOR NO KEY UPDATE

-- name: others_of
-- A group and a table belong to one region: other regions that have one of them.
SELECT r.region, r.group_id = %(group_id)s,
       (SELECT coalesce(array_agg(t.table_name ORDER BY t.target), '{}') FROM tidemark.targets t
        WHERE t.region = r.region AND t.table_name = ANY (%(tables)s))
FROM tidemark.regions r
WHERE r.region <> %(region)s
  AND (r.group_id = %(group_id)s
       OR EXISTS (SELECT FROM tidemark.targets t WHERE t.region = r.region AND t.table_name = ANY (%(tables)s)))
ORDER BY r.region

-- name: partitions
-- The merged checkpoint of the head, partition by partition, quiet ones included.
SELECT topic, partition, topic_id, next_offset, seq, leader_epoch, record_end
FROM tidemark.partitions
WHERE region = %(region)s AND ended_epoch IS NULL ORDER BY topic, partition

-- name: region_state
-- A look, or what `lock_region` holds.
SELECT epoch, head_seq, next_seq, cluster_id, group_id, oldest_seq, consecutive_resets, fingerprint,
       (SELECT coalesce(jsonb_object_agg(
            t.target, jsonb_build_array(t.table_name, t.table_oid::bigint, t.key_forms)), '{}')
        FROM tidemark.targets t WHERE t.region = r.region)
FROM tidemark.regions r WHERE region = %(region)s

-- name: regions
-- Every region of this ledger.
SELECT s.region, s.state, s.epoch, s.head_seq, s.lag, s.last_checkpoint_at, s.dead_letters, r.group_id,
       (SELECT string_agg(t.table_name, ', ' ORDER BY t.target) FROM tidemark.targets t WHERE t.region = s.region)
FROM tidemark.region_status s JOIN tidemark.regions r USING (region) ORDER BY s.region

-- name: size_of
-- What the ledger has of a region.
SELECT (SELECT count(*) FROM tidemark.partitions p WHERE p.region = %(region)s),
       (SELECT count(*) FROM tidemark.batches b WHERE b.region = %(region)s),
       (SELECT count(*) FROM tidemark.dead_letters d WHERE d.region = %(region)s)

-- name: target_offsets
-- Where a run stops.
SELECT topic, partition, target_offset FROM tidemark.run_targets
WHERE region = %(region)s AND epoch = %(epoch)s ORDER BY topic, partition

-- name: target_oid
-- The table that bears a name now.
SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(table)s

-- name: write_action
-- What a person did, for the record.
INSERT INTO tidemark.actions (region, kind, requested_by, why, details)
VALUES (%(region)s, %(kind)s, %(requested_by)s, %(why)s, %(details)s)
