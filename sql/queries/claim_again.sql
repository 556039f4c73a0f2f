-- Each span of a published batch was read anew, with as many records as at the first time.
UPDATE tidemark.spans s
SET contribution = %(contribution)s, attempt = c.attempt, dead_letters = c.dead_letters, bytes = c.bytes
FROM unnest(%(topics)s::text[], %(partitions)s::int[], %(starts)s::bigint[], %(ends)s::bigint[],
            %(attempts)s::bigint[], %(records)s::bigint[], %(dead_letters)s::bigint[], %(bytes)s::bigint[])
    AS c (topic, partition, start_offset, end_offset, attempt, records, dead_letters, bytes)
WHERE s.region = %(region)s AND s.seq = %(seq)s AND s.topic = c.topic AND s.partition = c.partition
  AND s.start_offset = c.start_offset AND s.end_offset = c.end_offset AND s.records = c.records
