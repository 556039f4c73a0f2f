-- Written once, before anyone reads; kept for ever.
INSERT INTO tidemark.partitions (region, topic, partition, topic_id, initial_offset, next_offset)
SELECT %(region)s, t.topic, t.partition, t.topic_id, t.initial_offset, t.initial_offset
FROM unnest(%(topics)s::text[], %(partitions)s::int[], %(topic_ids)s::text[], %(offsets)s::bigint[])
    AS t (topic, partition, topic_id, initial_offset)
ON CONFLICT (region, topic, partition) WHERE ended_epoch IS NULL DO NOTHING
