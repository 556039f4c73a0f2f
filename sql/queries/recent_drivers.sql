-- The drivers of the newest epochs.
SELECT m.member, m.epoch, m.name, m.state, m.joined_at, m.seen_at FROM tidemark.members m
WHERE m.region = %(region)s AND m.epoch >= %(epoch)s ORDER BY m.member LIMIT %(limit)s
