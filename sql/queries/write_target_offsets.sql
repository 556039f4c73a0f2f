-- A run drains up to these and stops.
INSERT INTO tidemark.run_targets (region, epoch, topic, partition, target_offset)
SELECT %(region)s, %(epoch)s, t.topic, t.partition, t.target_offset
FROM unnest(%(topics)s::text[], %(partitions)s::int[], %(offsets)s::bigint[])
    AS t (topic, partition, target_offset)
