-- The merged checkpoint at a seq, which a rewind restores: where each partition goes on after what was read up to there.
-- A partition stands in the history of its log whose later spans count: what was read between the seq and a range that a
-- person accepted as lost is not passed. A rewind past such a range is refused; without later spans it begins behind it.
WITH r AS MATERIALIZED (
    SELECT g.region, g.epoch, (SELECT json_object_agg(f.key, f.value) FROM json_each_text(g.fingerprint) f
           WHERE starts_with(f.key, 'output.') OR f.key = 'dead_letters.topic') AS sends
    FROM tidemark.regions g WHERE g.region = %(region)s
), histories AS MATERIALIZED (
    SELECT DISTINCT ON (o.topic, o.partition, o.topic_id) o.topic, o.partition, o.topic_id, o.partition_id, o.initial_offset
    FROM tidemark.partitions o
    WHERE o.region = %(region)s AND o.ended_epoch IS NOT NULL
      AND EXISTS (SELECT FROM tidemark.spans l WHERE l.partition_id = o.partition_id AND l.live AND l.seq > %(seq)s)
    ORDER BY o.topic, o.partition, o.topic_id, o.partition_id
)
SELECT r.epoch, %(seq)s::bigint, p.topic, p.partition,
       coalesce(s.end_offset, h.initial_offset, p.initial_offset), r.sends, p.topic_id, p.next_offset
FROM r
LEFT JOIN tidemark.partitions p ON p.region = r.region AND p.ended_epoch IS NULL
LEFT JOIN histories h USING (topic, partition, topic_id)
LEFT JOIN LATERAL (SELECT n.end_offset FROM tidemark.spans n
                   WHERE n.partition_id = coalesce(h.partition_id, p.partition_id) AND n.live AND n.seq <= %(seq)s
                   ORDER BY n.seq DESC LIMIT 1) s ON true
ORDER BY p.topic, p.partition
