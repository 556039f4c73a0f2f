-- A planned batch: it follows the newest one that is planned, or else the head.
INSERT INTO tidemark.batches (region, seq, epoch, previous_seq, in_flight, spans)
SELECT r.region, %(seq)s, n.epoch, coalesce(max(b.seq), r.head_seq), n.in_flight, %(spans)s
FROM tidemark.regions r
JOIN tidemark.runs n ON n.region = r.region AND n.epoch = %(epoch)s
LEFT JOIN tidemark.batches b ON b.region = r.region AND b.state = 'planned'
WHERE r.region = %(region)s GROUP BY r.region, n.region, n.epoch
