-- Partition -> next offset, quiet partitions included, with the epoch and head they belong to: one snapshot.
SELECT r.epoch, r.head_seq, p.topic, p.partition, p.next_offset, r.fingerprint->>'output.topic'
FROM tidemark.regions r LEFT JOIN tidemark.partitions p ON p.region = r.region AND p.ended_epoch IS NULL
WHERE r.region = %(region)s ORDER BY p.topic, p.partition
