-- What is pruned, and which tables of batches are in use.

-- name: end_writers
-- Sessions of tasks that still write to tables which nobody needs. No time-out ends a COPY that waits for its client.
-- A connection may give its sessions another name; where executors have one of their own, this session does not know it.
SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.relation = to_regclass(%(table)s) AND l.database = a.datid AND l.granted AND l.mode = 'RowExclusiveLock'
  AND a.datname = current_database() AND pg_has_role(a.usesysid, 'USAGE')
  AND a.application_name IN ('tidemark', nullif(current_setting('application_name'), ''))
  AND l.pid <> pg_backend_pid()

-- name: staging_is_there
-- Whether the batch has staging tables, which are made together.
SELECT to_regclass(format('%%I.%%I', %(schema)s::text, %(reads)s::text)) IS NOT NULL

-- name: find_rows_tables
-- The tables of a batch's rows, one for each target.
SELECT relname FROM pg_catalog.pg_class
WHERE relnamespace = to_regnamespace(%(schema)s) AND relkind = 'r'
  AND (relname = %(rows)s OR starts_with(relname, %(rows)s || '.'))
ORDER BY 1

-- name: prune_contributions
-- Contributions without spans tell nothing more.
DELETE FROM tidemark.contributions c
WHERE c.region = %(region)s AND c.seq < %(oldest)s
  AND NOT EXISTS (SELECT FROM tidemark.spans s WHERE s.region = %(region)s AND s.seq < %(oldest)s
                  AND s.contribution = c.contribution)

-- name: prune_members
-- Members of forgotten runs; one that contributed to a kept batch stays.
DELETE FROM tidemark.members WHERE member IN (
    SELECT m.member FROM tidemark.members m
    WHERE m.region = %(region)s
      AND m.epoch <= (SELECT n.epoch - %(retain)s FROM tidemark.regions n WHERE n.region = %(region)s)
      AND NOT EXISTS (SELECT FROM tidemark.contributions c WHERE c.member = m.member)
    ORDER BY m.epoch LIMIT %(step)s)

-- name: prune_oldest_seq
-- Older checkpoints can no longer be restored.
UPDATE tidemark.regions SET oldest_seq = %(oldest)s
WHERE region = %(region)s AND oldest_seq < %(oldest)s AND head_seq >= %(oldest)s

-- name: prune_runs
-- As many runs as checkpoints are kept, and every run of a kept checkpoint or a newer one; also the newest one that had
-- read all before these, which tells up to when the oldest checkpoint is complete. A run that was given overrides is
-- kept for ever: cleared, it must not have them again.
DELETE FROM tidemark.runs WHERE region = %(region)s AND epoch IN (
    SELECT r.epoch FROM tidemark.runs r
    WHERE r.region = %(region)s AND r.state <> 'open' AND r.overrides = '{}'
      AND r.epoch <= (SELECT n.epoch - %(retain)s FROM tidemark.regions n WHERE n.region = %(region)s)
      AND NOT EXISTS (SELECT FROM tidemark.batches b
                      WHERE b.region = r.region AND b.epoch = r.epoch AND b.seq >= %(oldest)s)
      AND r.epoch IS DISTINCT FROM (
          SELECT max(k.epoch) FROM tidemark.runs k
          WHERE k.region = %(region)s AND k.state = 'closed' AND k.bound IS NULL AND k.epoch < (
              SELECT o.epoch FROM tidemark.batches o WHERE o.region = %(region)s AND o.seq = %(oldest)s))
    ORDER BY r.epoch LIMIT %(step)s)

-- name: prune_spans
-- Of checkpoints older than the retained ones only each partition's newest boundary is kept.
DELETE FROM tidemark.spans s
WHERE s.region = %(region)s AND s.seq < %(oldest)s AND (NOT s.live OR s.seq < (
    SELECT max(n.seq) FROM tidemark.spans n
    WHERE n.partition_id = s.partition_id AND n.live AND n.seq <= %(oldest)s))

-- name: prune_undo_columns
-- No rewind goes back behind these any more; sweep_undo deletes their rows afterwards.
WITH columns AS (
    DELETE FROM tidemark.undo_columns WHERE region = %(region)s AND seq <= %(oldest)s RETURNING target, seq
)
UPDATE tidemark.targets t SET undo_pruned_seq = c.seq
FROM (SELECT target, max(seq) AS seq FROM columns GROUP BY target) c
WHERE t.region = %(region)s AND t.target = c.target

-- name: prune_up_to
-- The oldest of the newest checkpoints, and how far a step of pruning goes towards it; nothing while there are fewer.
-- Where rows are sent to a topic, of those that were: what is sent is counted by the batch, and the newest is named.
SELECT b.seq, (SELECT max(s.seq) FROM (
    SELECT n.seq FROM tidemark.batches n JOIN tidemark.regions r USING (region)
    WHERE n.region = %(region)s AND n.state = 'published' AND n.seq > r.oldest_seq AND n.seq <= b.seq
    ORDER BY n.seq LIMIT %(step)s) s)
FROM tidemark.batches b JOIN tidemark.regions g USING (region)
WHERE b.region = %(region)s AND b.state = 'published'
  AND (coalesce(g.fingerprint->>'output.topic', g.fingerprint->>'dead_letters.topic') IS NULL
       OR b.seq <= coalesce(g.sent_seq, 0))
ORDER BY b.seq DESC OFFSET %(retain)s - 1 LIMIT 1

-- name: scratch_tables
-- Scratch tables of every verify in this database. Their names begin with a character that no
-- region's name has, so that retiring a region never meets them.
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'tidemark_staging' AND c.relkind = 'r' AND c.relname ~ '^#verify_[0-9a-f]{8}_'
ORDER BY 1

-- name: seqs_in_use
-- What retire must leave alone: unpublished batches, and seqs not given out yet.
SELECT r.next_seq, array_remove(array_agg(b.seq), NULL) FROM tidemark.regions r
LEFT JOIN tidemark.batches b ON b.region = r.region AND b.state = 'planned'
WHERE r.region = %(region)s GROUP BY r.next_seq

-- name: staged_batches
-- The seq of each batch of a region that still has a staging table.
SELECT DISTINCT substring(relname FROM %(pattern)s)::bigint
FROM pg_catalog.pg_class
WHERE relnamespace = to_regnamespace(%(schema)s) AND relkind = 'r' AND relname ~ %(pattern)s
ORDER BY 1

-- name: staged_bytes
-- How large the staging tables of some batches are by now: what a task stages shows before its COMMIT.
SELECT coalesce(sum(pg_relation_size(oid)), 0)::bigint
FROM pg_catalog.pg_class
WHERE relnamespace = to_regnamespace(%(schema)s) AND relkind = 'r' AND relname ~ %(pattern)s

-- name: sweep_batches
-- Batches that no rewind goes back to, but for those with dead letters, or with a partition's newest boundary.
DELETE FROM tidemark.batches WHERE region = %(region)s AND seq IN (
    SELECT b.seq FROM tidemark.batches b JOIN tidemark.regions r USING (region)
    WHERE b.region = %(region)s AND b.seq < r.oldest_seq AND b.state <> 'planned'
      AND NOT EXISTS (SELECT FROM tidemark.spans s WHERE s.region = %(region)s AND s.seq = b.seq)
      AND NOT EXISTS (SELECT FROM tidemark.dead_letters d WHERE d.region = %(region)s AND d.seq = b.seq)
    LIMIT %(rows)s)

-- name: sweep_undo
-- What keys were before upserts that no rewind takes back. The key's index begins with region, target and seq.
DELETE FROM tidemark.undo WHERE ctid = ANY (ARRAY(
    SELECT u.ctid FROM tidemark.targets t CROSS JOIN LATERAL (
        SELECT u.ctid FROM tidemark.undo u
        WHERE u.region = %(region)s AND u.target = t.target AND u.seq <= t.undo_pruned_seq
        ORDER BY u.region, u.target, u.seq LIMIT %(rows)s) u
    WHERE t.region = %(region)s LIMIT %(rows)s))
