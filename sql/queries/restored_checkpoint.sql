-- Where a rewind to a seq puts each partition: at its newest live span up to there, or at its initial offset.
WITH r AS MATERIALIZED (
    SELECT g.region, g.epoch, (SELECT json_object_agg(f.key, f.value) FROM json_each_text(g.fingerprint) f
           WHERE starts_with(f.key, 'output.') OR f.key = 'dead_letters.topic') AS sends
    FROM tidemark.regions g WHERE g.region = %(region)s
)
SELECT r.epoch, %(seq)s::bigint, p.topic, p.partition, coalesce(s.end_offset, p.initial_offset),
       r.sends, p.topic_id, p.next_offset
FROM r
LEFT JOIN tidemark.partitions p ON p.region = r.region AND p.ended_epoch IS NULL
LEFT JOIN LATERAL (SELECT n.end_offset FROM tidemark.spans n
                   WHERE n.partition_id = p.partition_id AND n.live AND n.seq <= %(seq)s
                   ORDER BY n.seq DESC LIMIT 1) s ON true
ORDER BY p.topic, p.partition
