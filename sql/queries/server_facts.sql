-- What exactly once rests on.
SELECT current_setting('server_version_num')::int, current_setting('server_version'), current_user,
       pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean,
       current_setting('fsync'), current_setting('synchronous_commit'), current_setting('full_page_writes'),
       has_database_privilege(current_database(), 'CREATE'), current_database()
