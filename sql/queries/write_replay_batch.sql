-- A batch of dead letters: it follows the head, and has no spans.
INSERT INTO tidemark.batches (region, seq, epoch, previous_seq, in_flight, kind, records)
SELECT r.region, %(seq)s, r.epoch, r.head_seq, 1, 'replay', %(records)s
FROM tidemark.regions r WHERE r.region = %(region)s AND r.epoch = %(epoch)s
