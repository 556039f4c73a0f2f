-- Each span still unclaimed; the caller compares the count: all or none.
UPDATE tidemark.spans s
SET contribution = %(contribution)s, attempt = c.attempt, records = c.records, dead_letters = c.dead_letters,
    bytes = c.bytes, record_end = c.record_end, leader_epoch = c.leader_epoch
FROM unnest(%(topics)s::text[], %(partitions)s::int[], %(starts)s::bigint[], %(ends)s::bigint[],
            %(attempts)s::bigint[], %(records)s::bigint[], %(dead_letters)s::bigint[],
            %(bytes)s::bigint[], %(record_ends)s::bigint[], %(leader_epochs)s::int[])
    AS c (topic, partition, start_offset, end_offset, attempt, records, dead_letters, bytes, record_end, leader_epoch)
WHERE s.region = %(region)s AND s.seq = %(seq)s AND s.contribution IS NULL AND s.live
  AND s.topic = c.topic AND s.partition = c.partition
  AND s.start_offset = c.start_offset AND s.end_offset = c.end_offset
