-- For display only.
UPDATE tidemark.members
SET state = %(state)s, partitions = coalesce(%(partitions)s, partitions),
    drain_ms = coalesce(%(drain_ms)s, drain_ms),
    drain_ms_max = greatest(drain_ms_max, %(drain_ms)s), seen_at = clock_timestamp()
WHERE member = %(member)s
