-- What the session held under this name is free.
SELECT pg_advisory_unlock(hashtextextended(%(name)s, 0))
