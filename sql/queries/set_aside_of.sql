-- Dead letters of these batches that may be rows by now: a replay brought them, or their schema was registered since.
SELECT topic, partition, "offset" FROM tidemark.dead_letters
WHERE region = %(region)s AND seq BETWEEN %(first)s AND %(last)s
  AND (replayed_seq IS NOT NULL OR reason = 'UNKNOWN_SCHEMA')
