-- Settings of this session, or of this transaction alone.
SELECT set_config(setting, value, %(is_local)s)
FROM unnest(%(settings)s::text[], %(values)s::text[]) AS given (setting, value)
