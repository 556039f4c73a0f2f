-- Runs and their members.

-- name: announce
-- Readers are being told of what was published up to this seq: kept with the run's newest epoch.
UPDATE tidemark.runs SET announced_seq = %(seq)s
WHERE region = %(region)s AND run_id = %(run_id)s
  AND epoch = (SELECT max(n.epoch) FROM tidemark.runs n WHERE n.region = %(region)s AND n.run_id = %(run_id)s)

-- name: checkpoint_before
-- The newest checkpoint at or below these offsets in every partition; 0 is the initial state.
-- Offsets of a history that an open ended, and of those before it, name other records.
WITH above AS (
    SELECT min(n.seq) AS seq
    FROM unnest(%(topics)s::text[], %(partitions)s::int[], %(offsets)s::bigint[]) AS t (topic, partition, at)
    JOIN tidemark.partitions p ON p.region = %(region)s AND p.topic = t.topic AND p.partition = t.partition
        AND NOT EXISTS (SELECT FROM tidemark.partitions e
            WHERE e.region = p.region AND e.topic = p.topic AND e.partition = p.partition
              AND e.partition_id >= p.partition_id AND e.ended_epoch IS NOT NULL AND e.ended_seq IS NULL)
    CROSS JOIN LATERAL (SELECT s.seq FROM tidemark.spans s
        WHERE s.partition_id = p.partition_id AND s.live AND s.contribution IS NOT NULL AND s.end_offset > t.at
        ORDER BY s.seq LIMIT 1) n
)
SELECT coalesce((SELECT max(b.seq) FROM tidemark.batches b
                 WHERE b.region = %(region)s AND b.state = 'published'
                   AND b.seq < coalesce(above.seq, 9223372036854775807)), 0)
FROM above

-- name: close_run
-- The ledger's word on how a run ended. What an earlier try of its close was about to tell, this one has yet to tell.
UPDATE tidemark.runs SET state = %(state)s, reason = %(reason)s, closed_at = clock_timestamp(),
    announced_seq = NULL, periods_until = NULL
WHERE region = %(region)s AND epoch = %(epoch)s AND state IN ('open', 'failed', 'closed')

-- name: confirm_announced
-- What a run's close was about to tell is told. Under another epoch it may be rewound, or others may have told more.
UPDATE tidemark.regions r SET announced_seq = coalesce(n.announced_seq, r.announced_seq),
    announced_is_rewound = announced_is_rewound AND n.announced_seq IS NULL,
    periods_until = coalesce(n.periods_until, r.periods_until)
FROM tidemark.runs n
WHERE r.region = %(region)s AND n.region = r.region AND n.epoch = r.epoch
  AND n.run_id = %(run_id)s AND num_nonnulls(n.announced_seq, n.periods_until) > 0

-- name: lockable
-- The region, unless a transaction that decides has it at this moment; two that look are not in each other's way.
SELECT region FROM tidemark.regions WHERE region = %(region)s FOR SHARE SKIP LOCKED

-- name: members_at
-- The members of an epoch as they last told, for display; age in seconds, by the server's clock.
SELECT member, name, state, partitions, drain_ms, drain_ms_max, joined_at, seen_at,
       extract(epoch FROM clock_timestamp() - seen_at)::float8
FROM tidemark.members WHERE region = %(region)s AND epoch = %(epoch)s ORDER BY member

-- name: other_run
-- The open run of the region's epoch, if it has another id; since when the ledger has not heard of it; its members.
SELECT n.run_id, clock_timestamp() - greatest(n.opened_at, m.seen_at, b.at), m.members
FROM tidemark.regions r JOIN tidemark.runs n USING (region, epoch)
CROSS JOIN LATERAL (SELECT max(o.seen_at) AS seen_at, count(*) AS members FROM tidemark.members o
                    WHERE o.region = r.region AND o.epoch = r.epoch) m
CROSS JOIN LATERAL (SELECT max(greatest(p.planned_at, p.published_at)) AS at FROM tidemark.batches p
                    WHERE p.region = r.region AND p.epoch = r.epoch) b
WHERE r.region = %(region)s AND n.state = 'open' AND n.run_id <> %(run_id)s

-- name: progress
-- How far a run has come: one snapshot, no lock. Partitions are compared while nothing is unpublished alone.
SELECT r.epoch, r.head_seq,
       coalesce(b.claimed, 0),
       b.seqs IS NULL AND (n.bound IS NOT NULL OR NOT EXISTS (
           SELECT FROM tidemark.run_targets t JOIN tidemark.partitions p
               ON p.region = t.region AND p.topic = t.topic AND p.partition = t.partition
               AND p.ended_epoch IS NULL
           WHERE t.region = r.region AND t.epoch = n.epoch AND p.next_offset < t.target_offset)),
       coalesce(b.seqs, '{}'),
       r.sent_seq
FROM tidemark.regions r JOIN tidemark.runs n ON n.region = r.region AND n.epoch = %(epoch)s
CROSS JOIN LATERAL (SELECT sum(u.claimed)::bigint AS claimed, array_agg(u.seq ORDER BY u.seq) AS seqs
                    FROM tidemark.batches u WHERE u.region = r.region AND u.state = 'planned') b
WHERE r.region = %(region)s

-- name: register_member
-- A member's number keys its staged rows; it is never given twice.
INSERT INTO tidemark.members (region, epoch, uuid, name)
VALUES (%(region)s, %(epoch)s, %(uuid)s, %(name)s) RETURNING member

-- name: remark
-- What a member found that does not stop its run; said once, whoever finds it.
UPDATE tidemark.runs
SET remarks = remarks || ARRAY(
    SELECT DISTINCT found FROM unnest(%(remarks)s::text[]) AS found WHERE found <> ALL (remarks)
)
WHERE region = %(region)s AND epoch = %(epoch)s

-- name: newest_run
-- A reset takes an epoch without a run.
SELECT epoch, run_id, state, max_records, max_bytes, max_batches, max_seconds, batch_seconds, in_flight, backlog, bound, reason,
       opened_at, closed_at, overrides, remarks
FROM tidemark.runs WHERE region = %(region)s ORDER BY epoch DESC LIMIT 1

-- name: run_at
-- The run of an epoch.
SELECT epoch, run_id, state, max_records, max_bytes, max_batches, max_seconds, batch_seconds, in_flight, backlog, bound, reason,
       opened_at, closed_at, overrides, remarks
FROM tidemark.runs WHERE region = %(region)s AND epoch = %(epoch)s

-- name: run_of
-- The newest epoch of an Airflow run: clearing a task opens again under the same run id.
SELECT epoch, run_id, state, max_records, max_bytes, max_batches, max_seconds, batch_seconds, in_flight, backlog, bound, reason,
       opened_at, closed_at, overrides, remarks
FROM tidemark.runs WHERE region = %(region)s AND run_id = %(run_id)s ORDER BY epoch DESC LIMIT 1

-- name: show_member
-- For display only.
UPDATE tidemark.members
SET state = %(state)s, partitions = coalesce(%(partitions)s, partitions),
    drain_ms = coalesce(%(drain_ms)s, drain_ms),
    drain_ms_max = greatest(drain_ms_max, %(drain_ms)s), seen_at = clock_timestamp()
WHERE member = %(member)s

-- name: used_overrides
-- Overrides that earlier opens of the same run were given, with the epoch that used each.
SELECT override, max(epoch) FROM tidemark.runs, unnest(overrides) AS override
WHERE region = %(region)s AND run_id = %(run_id)s GROUP BY override
