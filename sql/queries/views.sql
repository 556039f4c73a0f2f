-- Reads for people, metrics and proofs; no decision uses them.

-- name: actions
-- What people did besides resets, newest first; of one region, if it is named.
SELECT a.at, a.region, a.kind, a.requested_by, a.why, a.details, a.database_user FROM tidemark.actions a
WHERE a.region = coalesce(%(region)s, a.region) ORDER BY a.action_id DESC LIMIT %(limit)s

-- name: broken_chains
-- Where published spans do not lead from the initial offset to the next offset without gap or overlap.
-- Of what was pruned, a partition's newest boundary is kept: a chain may begin there.
WITH published AS (
    SELECT s.partition_id, s.seq, s.start_offset, s.end_offset
    FROM tidemark.spans s JOIN tidemark.batches b USING (region, seq)
    WHERE s.region = %(region)s AND s.live AND b.state = 'published'
), links AS (
    SELECT p.topic, p.partition, s.seq, s.start_offset AS found,
           coalesce(lag(s.end_offset) OVER (PARTITION BY p.partition_id ORDER BY s.start_offset),
                    CASE WHEN s.seq <= r.oldest_seq THEN s.start_offset ELSE p.initial_offset END) AS expected
    FROM tidemark.regions r JOIN tidemark.partitions p USING (region) JOIN published s USING (partition_id)
), ends AS (
    SELECT p.topic, p.partition, NULL::bigint AS seq, p.next_offset AS found,
           coalesce((SELECT max(s.end_offset) FROM published s WHERE s.partition_id = p.partition_id),
                    p.initial_offset) AS expected
    FROM tidemark.partitions p WHERE p.region = %(region)s
)
SELECT topic, partition, seq, expected, found FROM (TABLE links UNION ALL TABLE ends) AS link
WHERE expected <> found ORDER BY topic, partition, found

-- name: was_dropped
-- Whether a region of this name was dropped from the ledger.
SELECT EXISTS (SELECT FROM tidemark.actions WHERE region = %(region)s AND kind = 'drop')

-- name: checkpoints
-- Checkpoints that can be restored, newest first; a limit of null is none.
SELECT b.seq, b.epoch, b.records, b.rows_moved, b.dead_letters_moved, b.planned_at, b.published_at,
       b.spans, b.records_refused, b.dead_letters_purged, 
       CASE WHEN b.kind = 'replay' THEN b.letters_replayed END,
       b.sized_by, b.drain_seconds, b.publish_seconds
FROM tidemark.batches b JOIN tidemark.regions r USING (region)
WHERE b.region = %(region)s AND b.state = 'published' AND b.seq >= r.oldest_seq
ORDER BY b.seq DESC LIMIT %(last)s

-- name: completeness
-- Up to when each region is complete, and what its readers should know of it.
SELECT region, complete_at, epoch, seq, dead_letters, transactions_were_open, accepted
FROM tidemark.completeness WHERE region = ANY (%(regions)s)

-- name: counted_after
-- What is published after a checkpoint.
SELECT count(*),
       (SELECT coalesce(sum(l.rows), 0)::bigint
        FROM tidemark.targets t, tidemark.rows_left(t.region, t.target, %(seq)s + 1) l
        WHERE t.region = %(region)s),
       coalesce(sum(dead_letters_moved), 0)::bigint
FROM tidemark.batches b WHERE region = %(region)s AND seq > %(seq)s AND state = 'published'

-- name: counted_rows
-- How many rows of each retained batch the ledger counted in a target, but those that upserts have overwritten since.
SELECT l.seq, l.rows
FROM tidemark.regions r, tidemark.rows_left(r.region, %(target)s, r.oldest_seq) l
WHERE r.region = %(region)s

-- name: durations
-- Of the newest checkpoints, seconds from plan to publish, from plan to the last contribution, and from that on.
SELECT extract(epoch FROM b.published_at - b.planned_at)::float8,
       extract(epoch FROM c.last_at - b.planned_at)::float8,
       extract(epoch FROM b.published_at - c.last_at)::float8
FROM (SELECT seq, planned_at, published_at FROM tidemark.batches
      WHERE region = %(region)s AND state = 'published' AND kind = 'drain'
      ORDER BY seq DESC LIMIT %(most)s) b
CROSS JOIN LATERAL (SELECT max(contributed_at) AS last_at FROM tidemark.contributions
                    WHERE region = %(region)s AND seq = b.seq) c
WHERE b.published_at > clock_timestamp() - make_interval(secs => %(seconds)s) AND c.last_at IS NOT NULL

-- name: head_and_newest
-- The head beside the newest published batch (0: none), which it should be: one snapshot.
SELECT r.head_seq, (SELECT coalesce(max(b.seq), 0) FROM tidemark.batches b
                    WHERE b.region = r.region AND b.state = 'published')
FROM tidemark.regions r WHERE r.region = %(region)s

-- name: hidden
-- Offsets that a transaction hides which was open at an earlier open already, and the time of the first of these.
SELECT coalesce(lso_lag, 0), lso_stuck_since FROM tidemark.region_status WHERE region = %(region)s

-- name: is_restorable
-- Whether a checkpoint is still published and retained.
SELECT EXISTS (SELECT FROM tidemark.batches b JOIN tidemark.regions r USING (region)
               WHERE b.region = %(region)s AND b.seq = %(seq)s AND b.state = 'published'
                 AND b.seq >= r.oldest_seq)

-- name: skipped_spans
-- Offsets that a person accepted as lost: between the end of a history and the next one of the same topic.
SELECT p.topic, p.partition, p.next_offset, n.initial_offset, p.ended_epoch
FROM tidemark.partitions p
CROSS JOIN LATERAL (SELECT f.initial_offset, f.topic_id FROM tidemark.partitions f
                    WHERE f.region = p.region AND f.topic = p.topic AND f.partition = p.partition
                      AND f.partition_id > p.partition_id ORDER BY f.partition_id LIMIT 1) n
WHERE p.region = %(region)s AND p.ended_epoch IS NOT NULL AND n.topic_id = p.topic_id
  AND n.initial_offset > p.next_offset
ORDER BY p.topic, p.partition, p.next_offset

-- name: longest_pause
-- Between the opens of the retained runs, one after another, and since the newest.
SELECT max(n.later - n.opened_at)
FROM (SELECT opened_at, lead(opened_at, 1, clock_timestamp()) OVER (ORDER BY epoch) AS later
      FROM tidemark.runs WHERE region = %(region)s) n

-- name: newest_end
-- When the newest run or reset that is over ended: its mirror was in the group then.
SELECT greatest((SELECT max(n.closed_at) FROM tidemark.runs n WHERE n.region = %(region)s),
                (SELECT max(s.finished_at) FROM tidemark.resets s WHERE s.region = %(region)s))

-- name: now
-- Ages are told by the clock that wrote the times.
SELECT clock_timestamp()

-- name: published_records
-- Records that an epoch's checkpoints are made of, by topic.
SELECT s.topic, sum(s.records)::bigint
FROM tidemark.batches b JOIN tidemark.spans s USING (region, seq)
WHERE b.region = %(region)s AND b.epoch = %(epoch)s AND b.state = 'published'
GROUP BY s.topic

-- name: published_rows
-- Rows that an epoch has published, by target; OFFSET 0: each batch's targets by their index.
SELECT t.target, sum(t.rows_moved)::bigint
FROM tidemark.batches b
CROSS JOIN LATERAL (SELECT m.target, m.rows_moved FROM tidemark.batch_targets m
                    WHERE m.region = b.region AND m.seq = b.seq OFFSET 0) t
WHERE b.region = %(region)s AND b.epoch = %(epoch)s AND b.state = 'published'
GROUP BY t.target

-- name: recent_retries
-- Drivers that joined a run in place of an earlier one: Airflow's tries of a task have its name.
SELECT count(*) - count(DISTINCT (epoch, regexp_replace(name, ' try [0-9]+$', '')))
FROM tidemark.members
WHERE region = %(region)s AND joined_at > clock_timestamp() - make_interval(secs => %(seconds)s)

-- name: recent_runs
-- How many runs opened lately, by state.
SELECT state, count(*) FROM tidemark.runs
WHERE region = %(region)s AND opened_at > clock_timestamp() - make_interval(secs => %(seconds)s)
GROUP BY state

-- name: retained_rows
-- Rows that were moved to each target, over the checkpoints that can be restored.
SELECT t.target, sum(t.rows_moved)::bigint
FROM tidemark.batches b JOIN tidemark.regions r USING (region) JOIN tidemark.batch_targets t USING (region, seq)
WHERE b.region = %(region)s AND b.state = 'published' AND b.seq >= r.oldest_seq
GROUP BY t.target
