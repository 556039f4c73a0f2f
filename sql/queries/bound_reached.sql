-- Which bound of the run is reached, by Postgres' clock and the ledger's count. A time bound lets the first batch
-- through: a slow start is no failure.
SELECT CASE
    WHEN r.max_batches <= planned.batches THEN 'max_batches'
    WHEN r.max_seconds <= extract(epoch FROM clock_timestamp() - r.opened_at) AND planned.batches > 0 THEN 'max_seconds'
END
FROM tidemark.runs r CROSS JOIN LATERAL (
    SELECT count(*) AS batches FROM tidemark.batches b WHERE b.region = r.region AND b.epoch = r.epoch) planned
WHERE r.region = %(region)s AND r.epoch = %(epoch)s
