-- What a session sets for itself, and the names that it locks.

-- name: configure
-- Settings of this session, or of this transaction alone.
SELECT set_config(setting, value, %(is_local)s)
FROM unnest(%(settings)s::text[], %(values)s::text[]) AS given (setting, value)

-- name: settle_session
-- Settings of a new session, whose names may still be found by the role's search_path; those without a value are asked
-- for. A setting that the server does not know is left out.
SELECT setting, CASE WHEN value IS NULL THEN pg_catalog.current_setting(setting)
                     ELSE pg_catalog.set_config(setting, value, false) END
FROM ROWS FROM (pg_catalog.unnest(%(settings)s::pg_catalog.text[]),
                pg_catalog.unnest(%(values)s::pg_catalog.text[])) AS given (setting, value)
WHERE pg_catalog.current_setting(setting, true) IS NOT NULL

-- name: lock_migrations
-- One migration at a time in a database.
SELECT pg_advisory_xact_lock(%(key)s)

-- name: lock_name
-- Who comes second waits for the first one's COMMIT.
SELECT pg_advisory_xact_lock(hashtextextended(%(name)s, 0))

-- name: try_lock_name
-- Held by the session until it is given back or the session ends; false if another session holds it.
SELECT pg_try_advisory_lock(hashtextextended(%(name)s, 0))

-- name: unlock_name
-- What the session held under this name is free.
SELECT pg_advisory_unlock(hashtextextended(%(name)s, 0))
