-- Partition -> next offset, quiet partitions included, with the epoch and head they belong to, and what the newest run
-- sends: one snapshot.
WITH r AS MATERIALIZED (
    SELECT g.region, g.epoch, g.head_seq, (SELECT json_object_agg(f.key, f.value) FROM json_each_text(g.fingerprint) f
           WHERE starts_with(f.key, 'output.') OR f.key = 'dead_letters.topic') AS sends
    FROM tidemark.regions g WHERE g.region = %(region)s
)
SELECT r.epoch, r.head_seq, p.topic, p.partition, p.next_offset, r.sends
FROM r LEFT JOIN tidemark.partitions p ON p.region = r.region AND p.ended_epoch IS NULL
ORDER BY p.topic, p.partition
