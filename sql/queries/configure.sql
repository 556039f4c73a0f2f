-- A setting of this session, or of this transaction alone.
SELECT set_config(%(setting)s, %(value)s, %(is_local)s)
