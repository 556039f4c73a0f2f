-- The newest resets and rewinds of a region, newest first.
SELECT epoch, requested_by, why, run_id, discarded_seqs, from_seq, to_seq, rows_removed, dead_letters_removed,
       overrides, state, started_at, finished_at
FROM tidemark.resets WHERE region = %(region)s ORDER BY epoch DESC LIMIT %(limit)s
