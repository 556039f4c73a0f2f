-- Staging tables of the region whose batch is not its unpublished one. A seq is known before its
-- tables are made and never given out again, so a table below next_seq without a plan is done with.
SELECT n.nspname, c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace,
     LATERAL (SELECT (regexp_match(c.relname, '^' || %(region)s || '_(\d+)_(rows|dead_letters|reads)$'))[1]::bigint) AS t (seq)
WHERE n.nspname = 'tidemark_staging' AND c.relkind = 'r' AND t.seq IS NOT NULL
  AND t.seq < (SELECT next_seq FROM tidemark.regions WHERE region = %(region)s)
  AND NOT EXISTS (SELECT FROM tidemark.batches b
      WHERE b.region = %(region)s AND b.seq = t.seq AND b.state = 'planned')
