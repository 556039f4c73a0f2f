-- Where the named regions stand, and what each published in the last day, by half hours that begin a day ago.
-- Of a region with very many checkpoints the newest ones count.
SELECT s.region, s.state, s.epoch, s.head_seq, s.lag, s.last_checkpoint_at, s.last_checkpoint_age_s::float8,
       s.dead_letters, s.consecutive_resets, s.run_id, s.reason, s.newest_run_opened_at,
       coalesce(day.dead_letters, 0)::bigint, coalesce(day.parts, '{}'), coalesce(day.rows, '{}'),
       CASE WHEN day.batches = %(newest)s THEN day.since END
FROM tidemark.region_status s
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
