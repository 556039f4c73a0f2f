-- Held by the session until it is given back or the session ends; false if another session holds it.
SELECT pg_try_advisory_lock(hashtextextended(%(name)s, 0))
