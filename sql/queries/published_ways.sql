-- How a target was published to after a seq, the newest way first: by which key it was upserted (null: appended), and in
-- which batch last; before that the newest upsert that can't be taken back, and the oldest checkpoint.
SELECT t.undo_pruned_seq, r.oldest_seq, p.key, p.seq
FROM tidemark.targets t JOIN tidemark.regions r USING (region)
LEFT JOIN (SELECT o.key, max(o.seq) AS seq
           FROM tidemark.batches b JOIN tidemark.batch_targets o ON o.region = b.region AND o.seq = b.seq
           WHERE b.region = %(region)s AND b.seq > %(seq)s AND b.state = 'published'
             AND o.region = %(region)s AND o.seq > %(seq)s AND o.target = %(target)s
           GROUP BY o.key) p ON true
WHERE t.region = %(region)s AND t.target = %(target)s ORDER BY p.seq DESC
