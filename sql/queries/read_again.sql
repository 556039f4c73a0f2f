-- What a rewind to a seq reads again of each partition, as far as the ledger has its spans: their records, the first one.
SELECT s.topic, s.partition, min(s.start_offset), max(s.end_offset), sum(s.records)::bigint,
       (array_agg(s.end_offset ORDER BY s.seq))[1], (array_agg(s.records ORDER BY s.seq))[1]
FROM tidemark.spans s JOIN tidemark.partitions p USING (partition_id)
JOIN tidemark.regions r ON r.region = s.region AND s.seq <= r.head_seq  -- not of the unpublished batch
WHERE s.region = %(region)s AND s.seq > %(seq)s AND s.live AND p.ended_epoch IS NULL
GROUP BY s.topic, s.partition ORDER BY s.topic, s.partition
