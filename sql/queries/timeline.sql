-- A region over time, for pages.

-- name: newest_dead_letters
-- The newest dead letters, of key and value the first bytes and how many there are.
SELECT n.seq, b.published_at, n.topic, n.partition, n."offset", n.timestamp_ms, n.reason, n.detail,
       substring(n.key FROM 1 FOR %(bytes)s), octet_length(n.key),
       substring(n.value FROM 1 FOR %(bytes)s), octet_length(n.value), left(n.refused_rows::text, %(bytes)s), n.whole_bytes
FROM (SELECT d.* FROM tidemark.dead_letters d WHERE d.region = %(region)s AND d.replayed_seq IS NULL
      ORDER BY d.seq DESC LIMIT %(limit)s) n
JOIN tidemark.batches b ON b.region = n.region AND b.seq = n.seq
ORDER BY n.seq DESC, n.topic, n.partition, n."offset" DESC

-- name: past_runs
-- The newest runs of a region, newest first.
SELECT epoch, run_id, state, max_records, max_bytes, max_batches, max_seconds, batch_seconds, in_flight, backlog, bound, reason,
       opened_at, closed_at, overrides, remarks
FROM tidemark.runs WHERE region = %(region)s ORDER BY epoch DESC LIMIT %(limit)s

-- name: reasons_of_newest
-- How many of the newest dead letters have each reason, the commonest first; a `most` of null is all reasons.
SELECT n.reason, count(*), max(n.seq)
FROM (SELECT reason, seq FROM tidemark.dead_letters WHERE region = %(region)s AND replayed_seq IS NULL
      ORDER BY seq DESC LIMIT %(limit)s) n
GROUP BY n.reason ORDER BY 2 DESC, 1 LIMIT %(most)s

-- name: recent_batches
-- The newest batches of a region, newest first, unpublished and rewound ones too; each with its last contribution.
SELECT b.seq, b.epoch, b.kind, b.state, b.records, b.rows_moved, b.dead_letters_moved, b.spans, b.claimed,
       b.planned_at, (SELECT max(c.contributed_at) FROM tidemark.contributions c
                      WHERE c.region = b.region AND c.seq = b.seq), b.published_at, b.sized_by
FROM tidemark.batches b
WHERE b.region = %(region)s ORDER BY b.seq DESC LIMIT %(limit)s

-- name: recent_drivers
-- The drivers of the newest epochs.
SELECT m.member, m.epoch, m.name, m.state, m.joined_at, m.seen_at FROM tidemark.members m
WHERE m.region = %(region)s AND m.epoch >= %(epoch)s ORDER BY m.member LIMIT %(limit)s

-- name: recent_ends
-- Where the logs ended when the newest runs opened, open transactions included.
SELECT t.epoch, t.topic, t.partition, t.high_watermark
FROM tidemark.run_targets t WHERE t.region = %(region)s AND t.epoch >= %(epoch)s ORDER BY t.epoch

-- name: recent_resets
-- The newest resets of a region, of every kind, newest first.
SELECT epoch, kind, requested_by, why, run_id, discarded_seqs, from_seq, to_seq, rows_removed, overrides,
       state, started_at, finished_at
FROM tidemark.resets WHERE region = %(region)s ORDER BY epoch DESC LIMIT %(limit)s

-- name: recent_shares
-- Who had a part in the batches of the newest epochs, newest first; an unpublished one has no end.
SELECT DISTINCT c.member, b.seq, b.state, greatest(b.planned_at, m.joined_at), b.published_at, b.rows_moved
FROM tidemark.batches b JOIN tidemark.contributions c USING (region, seq)
JOIN tidemark.members m USING (member)
WHERE b.region = %(region)s AND b.epoch >= %(epoch)s ORDER BY b.seq DESC, c.member LIMIT %(limit)s

-- name: recent_spans
-- What the batches from a seq on have read of each partition, rewound ones too.
SELECT s.seq, s.topic, s.partition, s.start_offset, s.end_offset
FROM tidemark.spans s JOIN tidemark.batches b ON b.region = s.region AND b.seq = s.seq
WHERE s.region = %(region)s AND s.seq >= %(seq)s
  AND b.region = %(region)s AND b.seq >= %(seq)s AND b.state <> 'planned' ORDER BY s.seq

-- name: standings
-- Where the named regions stand, by their newest runs, which resets may have followed; and what each published in
-- the last day, by half hours that begin a day ago. Of a region with very many checkpoints the newest ones count.
SELECT s.region, s.state, s.epoch, s.head_seq, s.lag, s.last_checkpoint_at, s.last_checkpoint_age_s::float8,
       s.dead_letters, s.consecutive_resets, newest.run_id, newest.state, newest.reason,
       newest.opened_at, reset.started_at,
       coalesce(day.dead_letters, 0)::bigint, coalesce(day.parts, '{}'), coalesce(day.rows, '{}'),
       CASE WHEN day.batches = %(newest)s THEN day.since END
FROM tidemark.region_status s
LEFT JOIN LATERAL (SELECT n.run_id, n.state, n.reason, n.opened_at FROM tidemark.runs n
                   WHERE n.region = s.region ORDER BY n.epoch DESC LIMIT 1) newest ON true
LEFT JOIN LATERAL (SELECT n.started_at FROM tidemark.resets n
                   WHERE n.region = s.region ORDER BY n.epoch DESC LIMIT 1) reset ON true
LEFT JOIN LATERAL (
    SELECT sum(part.dead_letters) AS dead_letters, sum(part.batches) AS batches, min(part.since) AS since,
           array_agg(part.number ORDER BY part.number) AS parts, array_agg(part.rows ORDER BY part.number) AS rows
    FROM (SELECT floor(extract(epoch FROM n.published_at - (clock_timestamp() - interval '1 day')) / 1800)::int
                     AS number, sum(n.rows_moved)::bigint AS rows, sum(n.dead_letters_moved) AS dead_letters,
                 count(*) AS batches, min(n.published_at) AS since
          FROM (SELECT b.published_at, b.rows_moved, b.dead_letters_moved FROM tidemark.batches b
                WHERE b.region = s.region AND b.state = 'published' ORDER BY b.seq DESC LIMIT %(newest)s) n
          WHERE n.published_at > clock_timestamp() - interval '1 day' GROUP BY 1) part) day ON true
WHERE s.region = ANY(%(regions)s)
