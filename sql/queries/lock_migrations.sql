-- One migration at a time in a database.
SELECT pg_advisory_xact_lock(%(key)s)
