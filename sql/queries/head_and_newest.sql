-- The head beside the newest published batch (0: none), which it should be: one snapshot.
SELECT r.head_seq, (SELECT coalesce(max(b.seq), 0) FROM tidemark.batches b
                    WHERE b.region = r.region AND b.state = 'published')
FROM tidemark.regions r WHERE r.region = %(region)s
