-- Each span still unclaimed; the caller compares the count: all or none. Each is looked up by its key, however
-- wide the batch is: of spans that were just planned Postgres has no statistics, and takes them for one row. Where
-- the look-up says `live`, it takes the indexes of live spans, and reads half of the region for each.
UPDATE tidemark.spans s
SET contribution = %(contribution)s, attempt = c.attempt, records = c.records, dead_letters = c.dead_letters,
    bytes = c.bytes, record_end = c.record_end, leader_epoch = c.leader_epoch
FROM unnest(%(topics)s::text[], %(partitions)s::int[], %(starts)s::bigint[], %(ends)s::bigint[],
            %(attempts)s::bigint[], %(records)s::bigint[], %(dead_letters)s::bigint[],
            %(bytes)s::bigint[], %(record_ends)s::bigint[], %(leader_epochs)s::int[])
    AS c (topic, partition, start_offset, end_offset, attempt, records, dead_letters, bytes, record_end, leader_epoch)
CROSS JOIN LATERAL (SELECT n.ctid, n.live FROM tidemark.spans n
                    WHERE n.region = %(region)s AND n.seq = %(seq)s AND n.topic = c.topic
                      AND n.partition = c.partition AND n.contribution IS NULL
                      AND n.start_offset = c.start_offset AND n.end_offset = c.end_offset LIMIT 1) AS found
WHERE s.ctid = found.ctid AND found.live
