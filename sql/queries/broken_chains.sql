-- Where published spans do not lead from the initial offset to the next offset without gap or overlap.
-- Of what was pruned, a partition's newest boundary is kept: a chain may begin there.
WITH published AS (
    SELECT s.partition_id, s.seq, s.start_offset, s.end_offset
    FROM tidemark.spans s JOIN tidemark.batches b USING (region, seq)
    WHERE s.region = %(region)s AND s.live AND b.state = 'published'
), links AS (
    SELECT p.topic, p.partition, s.seq, s.start_offset AS found,
           coalesce(lag(s.end_offset) OVER (PARTITION BY p.partition_id ORDER BY s.start_offset),
                    CASE WHEN s.seq <= r.oldest_seq THEN s.start_offset ELSE p.initial_offset END) AS expected
    FROM tidemark.regions r JOIN tidemark.partitions p USING (region) JOIN published s USING (partition_id)
), ends AS (
    SELECT p.topic, p.partition, NULL::bigint AS seq, p.next_offset AS found,
           coalesce((SELECT max(s.end_offset) FROM published s WHERE s.partition_id = p.partition_id),
                    p.initial_offset) AS expected
    FROM tidemark.partitions p WHERE p.region = %(region)s
)
SELECT topic, partition, seq, expected, found FROM (TABLE links UNION ALL TABLE ends) AS link
WHERE expected <> found ORDER BY topic, partition, found
