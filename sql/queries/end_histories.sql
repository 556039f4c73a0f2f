-- Told to go on without what Kafka lost: what was read of these partitions stays, their history ends.
UPDATE tidemark.partitions p SET ended_epoch = %(epoch)s
FROM unnest(%(topics)s::text[], %(partitions)s::int[]) AS t (topic, partition)
WHERE p.region = %(region)s AND p.topic = t.topic AND p.partition = t.partition AND p.ended_epoch IS NULL
