-- A run drains up to these and stops.
INSERT INTO tidemark.run_targets (region, epoch, topic, partition, target_offset, high_watermark, stable_since)
SELECT %(region)s, %(epoch)s, t.topic, t.partition, t.target_offset, t.high_watermark,
       coalesce(t.since, clock_timestamp())
FROM unnest(%(topics)s::text[], %(partitions)s::int[], %(offsets)s::bigint[], %(high_watermarks)s::bigint[],
            %(since)s::timestamptz[]) AS t (topic, partition, target_offset, high_watermark, since)
