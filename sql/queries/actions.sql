-- What people did besides resets, newest first; of one region, if it is named.
SELECT a.at, a.region, a.kind, a.requested_by, a.why, a.details, a.database_user FROM tidemark.actions a
WHERE a.region = coalesce(%(region)s, a.region) ORDER BY a.action_id DESC LIMIT %(limit)s
