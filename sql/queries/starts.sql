-- How a region's next run comes about: refused opens and doorbells.

-- name: awaited
-- What doorbells ask for their regions: the epoch; whether nobody is at work under it, and no run has failed there,
-- neither its own, nor one before it that the epoch was taken to clean up after (what a person does takes an epoch
-- without a run); where it stands in each partition; and what refused its newest open.
SELECT n.region, coalesce(r.epoch, 0),
       NOT EXISTS (SELECT FROM tidemark.runs w WHERE w.region = r.region AND w.epoch = r.epoch AND w.state <> 'closed')
       AND NOT EXISTS (SELECT FROM tidemark.resets s WHERE s.region = r.region AND s.epoch = r.epoch
                       AND (s.state = 'started' OR s.run_id IS NOT NULL))
       AND NOT EXISTS (SELECT FROM tidemark.batches b WHERE b.region = r.region AND b.state = 'planned'),
       (SELECT coalesce(jsonb_agg(jsonb_build_array(p.topic, p.partition, p.next_offset)), '[]')
        FROM tidemark.partitions p WHERE p.region = r.region AND p.ended_epoch IS NULL),
       o.run_id, o.code, o.error_case, o.fingerprint, o.refused_at
FROM unnest(%(regions)s::text[]) AS n (region)
LEFT JOIN tidemark.regions r ON r.region = n.region
LEFT JOIN tidemark.refused_opens o ON o.region = n.region AND o.epoch = coalesce(r.epoch, 0)
    AND NOT EXISTS (SELECT FROM tidemark.runs w
                    WHERE w.region = o.region AND w.epoch = o.epoch AND w.closed_at >= o.refused_at)

-- name: keep_refused_open
-- An open was refused, unless it is one of the run that holds the epoch: that one has opened.
INSERT INTO tidemark.refused_opens AS o (region, epoch, run_id, code, error_case, fingerprint)
SELECT %(region)s, coalesce(max(r.epoch), 0), %(run_id)s, %(code)s, %(error_case)s, %(fingerprint)s
FROM tidemark.regions r WHERE r.region = %(region)s
HAVING NOT EXISTS (SELECT FROM tidemark.runs n
                   WHERE n.region = %(region)s AND n.epoch = max(r.epoch) AND n.run_id = %(run_id)s)
ON CONFLICT (region) DO UPDATE SET (epoch, run_id, code, error_case, fingerprint, refused_at)
    = (excluded.epoch, excluded.run_id, excluded.code, excluded.error_case, excluded.fingerprint, clock_timestamp())

-- name: say_doorbells
-- What doorbells say of themselves; since when is kept while they say the same.
INSERT INTO tidemark.doorbells AS d (region, code, error_case)
SELECT n.region, n.code, n.error_case
FROM unnest(%(regions)s::text[], %(codes)s::text[], %(cases)s::text[]) AS n (region, code, error_case)
ON CONFLICT (region) DO UPDATE SET code = excluded.code, error_case = excluded.error_case, said_at = clock_timestamp(),
    since = CASE WHEN d.code IS NOT DISTINCT FROM excluded.code THEN d.since ELSE clock_timestamp() END

-- name: starts
-- What refused the newest open of each region, where that stands, and what its doorbell says: after a day of silence
-- there is none any more.
SELECT n.region, o.run_id, o.code, o.error_case, o.fingerprint, o.refused_at, d.code, d.error_case, d.since,
       clock_timestamp() - d.said_at > interval '10 minutes', d.said_at
FROM unnest(%(regions)s::text[]) AS n (region)
LEFT JOIN tidemark.regions r ON r.region = n.region
LEFT JOIN tidemark.refused_opens o ON o.region = n.region AND o.epoch = coalesce(r.epoch, 0)
    AND NOT EXISTS (SELECT FROM tidemark.runs w
                    WHERE w.region = o.region AND w.epoch = o.epoch AND w.closed_at >= o.refused_at)
LEFT JOIN tidemark.doorbells d ON d.region = n.region AND d.said_at > clock_timestamp() - interval '1 day'

-- name: starts_are_kept
-- Whether the ledger has been migrated so far.
SELECT to_regclass('tidemark.refused_opens') IS NOT NULL
