-- An unpublished batch that keeps the place of what is staged for a published one.
INSERT INTO tidemark.batches (region, seq, epoch, previous_seq, in_flight, kind)
SELECT r.region, %(staged_seq)s, r.epoch, r.head_seq, 1, 'again'
FROM tidemark.regions r WHERE r.region = %(region)s AND r.epoch = %(epoch)s
