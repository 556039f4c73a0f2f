-- Periods that readers are told of once they are complete.

-- name: announce_periods
-- A close is about to tell of periods. The first one is where a rewind begins to tell again at the latest.
UPDATE tidemark.regions SET periods_since = coalesce(periods_since, %(periods_since)s),
    periods_until = coalesce(periods_until, %(periods_since)s),
    periods_sent = greatest(periods_sent, %(periods_until)s), periods_lateness = %(lateness)s
WHERE region = %(region)s

-- name: announce_periods_of_run
-- What its verdict confirms.
UPDATE tidemark.runs SET periods_until = %(periods_until)s WHERE region = %(region)s AND epoch = %(epoch)s

-- name: periods
-- What readers know of, and up to when the region is complete.
SELECT r.periods_until, r.periods_sent, c.complete_at, c.transactions_were_open, c.accepted
FROM tidemark.regions r JOIN tidemark.completeness c USING (region) WHERE r.region = %(region)s

-- name: rewind_periods
-- Those that are not complete any more are told of again, from the first one on if nothing is.
UPDATE tidemark.regions r SET periods_until = least(periods_until, greatest(periods_since,
    (SELECT c.complete_at FROM tidemark.completeness c WHERE c.region = r.region) - periods_lateness))
WHERE r.region = %(region)s
