-- How far a run has come: one snapshot, no lock. Partitions are compared while nothing is unpublished alone.
SELECT r.epoch, r.head_seq,
       coalesce(b.claimed, 0),
       b.seqs IS NULL AND (n.bound IS NOT NULL OR NOT EXISTS (
           SELECT FROM tidemark.run_targets t JOIN tidemark.partitions p
               ON p.region = t.region AND p.topic = t.topic AND p.partition = t.partition
               AND p.ended_epoch IS NULL
           WHERE t.region = r.region AND t.epoch = n.epoch AND p.next_offset < t.target_offset)),
       coalesce(b.seqs, '{}'),
       r.sent_seq
FROM tidemark.regions r JOIN tidemark.runs n ON n.region = r.region AND n.epoch = %(epoch)s
CROSS JOIN LATERAL (SELECT sum(u.claimed)::bigint AS claimed, array_agg(u.seq ORDER BY u.seq) AS seqs
                    FROM tidemark.batches u WHERE u.region = r.region AND u.state = 'planned') b
WHERE r.region = %(region)s
