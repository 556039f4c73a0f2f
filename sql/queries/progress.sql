-- How far a run has come: one snapshot, no lock.
SELECT r.epoch, r.head_seq,
       (SELECT count(*) FROM tidemark.spans s JOIN tidemark.batches b USING (region, seq)
        WHERE b.region = r.region AND b.state = 'planned' AND s.contribution IS NOT NULL),
       NOT EXISTS (SELECT FROM tidemark.batches b WHERE b.region = r.region AND b.state = 'planned')
       AND (n.bound IS NOT NULL OR NOT EXISTS (
           SELECT FROM tidemark.run_targets t JOIN tidemark.partitions p
               ON p.region = t.region AND p.topic = t.topic AND p.partition = t.partition
               AND p.ended_epoch IS NULL
           WHERE t.region = r.region AND t.epoch = n.epoch AND p.next_offset < t.target_offset))
FROM tidemark.regions r JOIN tidemark.runs n ON n.region = r.region AND n.epoch = %(epoch)s
WHERE r.region = %(region)s
