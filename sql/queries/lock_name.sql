-- Who comes second waits for the first one's COMMIT.
SELECT pg_advisory_xact_lock(hashtextextended(%(name)s, 0))
