-- Which bound of the run is reached, by Postgres' clock and the ledger's count. A time bound lets the first batch
-- through: a slow start is no failure.
SELECT CASE
    WHEN r.max_batches <= (SELECT count(*) FROM tidemark.batches b
        WHERE b.region = r.region AND b.epoch = r.epoch AND b.state <> 'planned') THEN 'max_batches'
    WHEN r.max_seconds <= extract(epoch FROM clock_timestamp() - r.opened_at) AND EXISTS (SELECT FROM tidemark.batches b
        WHERE b.region = r.region AND b.epoch = r.epoch AND b.state <> 'planned') THEN 'max_seconds'
END
FROM tidemark.runs r WHERE r.region = %(region)s AND r.epoch = %(epoch)s
