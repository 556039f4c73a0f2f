-- Records that an epoch's checkpoints are made of, by topic.
SELECT s.topic, sum(s.records)::bigint
FROM tidemark.batches b JOIN tidemark.spans s USING (region, seq)
WHERE b.region = %(region)s AND b.epoch = %(epoch)s AND b.state = 'published'
GROUP BY s.topic
