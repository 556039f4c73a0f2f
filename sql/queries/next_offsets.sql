-- The next offset of each partition of the named regions.
SELECT p.region, p.topic, p.partition, p.next_offset FROM tidemark.partitions p
WHERE p.region = ANY(%(regions)s) AND p.ended_epoch IS NULL
