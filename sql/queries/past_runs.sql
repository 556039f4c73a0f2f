-- The newest runs of a region, newest first.
SELECT epoch, run_id, state, max_records, max_bytes, max_batches, max_seconds, in_flight, backlog, bound, reason,
       opened_at, closed_at, overrides, remarks
FROM tidemark.runs WHERE region = %(region)s ORDER BY epoch DESC LIMIT %(limit)s
