-- Its spans, with the topic ids they were planned on.
INSERT INTO tidemark.spans
    (region, seq, partition_id, topic, partition, start_offset, end_offset, topic_id)
SELECT %(region)s, %(seq)s, p.partition_id, s.topic, s.partition, s.start_offset, s.end_offset, p.topic_id
FROM unnest(%(topics)s::text[], %(partitions)s::int[], %(starts)s::bigint[], %(ends)s::bigint[])
    AS s (topic, partition, start_offset, end_offset)
JOIN tidemark.partitions p ON p.region = %(region)s AND p.topic = s.topic AND p.partition = s.partition
    AND p.ended_epoch IS NULL
