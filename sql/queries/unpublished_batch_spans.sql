-- The plan of a batch, who claimed what, and where the last record before each span ended: in the batch before it,
-- if that is unpublished too and is known to hold a record of the partition; or else as the partition knows. With
-- topics and partitions, spans of no others.
SELECT s.topic, s.partition, s.start_offset, s.end_offset, s.topic_id, s.contribution,
       coalesce(n.record_end, p.record_end),
       CASE WHEN n.record_end IS NULL THEN p.leader_epoch ELSE n.leader_epoch END
FROM tidemark.batches b JOIN tidemark.spans s USING (region, seq)
JOIN tidemark.partitions p USING (partition_id)
LEFT JOIN tidemark.batches before ON before.region = b.region AND before.seq = b.previous_seq
    AND before.state = 'planned'
LEFT JOIN tidemark.spans n ON n.region = before.region AND n.seq = before.seq
    AND n.partition_id = s.partition_id AND n.end_offset = s.start_offset
WHERE b.region = %(region)s AND b.seq = %(seq)s
  AND (%(topics)s::text[] IS NULL
       OR (s.topic = ANY (%(topics)s::text[]) AND s.partition = ANY (%(partitions)s::int[])))
ORDER BY s.topic, s.partition
