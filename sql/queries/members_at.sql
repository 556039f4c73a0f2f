-- The members of an epoch as they last told, for display; age in seconds, by the server's clock.
SELECT member, name, state, partitions, drain_ms, drain_ms_max, joined_at, seen_at,
       extract(epoch FROM clock_timestamp() - seen_at)::float8
FROM tidemark.members WHERE region = %(region)s AND epoch = %(epoch)s ORDER BY member
