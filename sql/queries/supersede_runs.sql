-- Whoever was open is so no longer.
UPDATE tidemark.runs SET state = 'superseded', closed_at = clock_timestamp()
WHERE region = %(region)s AND state = 'open'
