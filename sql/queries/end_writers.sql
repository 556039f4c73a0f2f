-- Sessions of tasks that still write to tables which nobody needs. No time-out ends a COPY that waits for its client.
SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.relation = to_regclass(%(table)s) AND l.database = a.datid AND l.granted AND l.mode = 'RowExclusiveLock'
  AND a.datname = current_database() AND pg_has_role(a.usesysid, 'USAGE') AND a.application_name = 'tidemark'
  AND l.pid <> pg_backend_pid()
