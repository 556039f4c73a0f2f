-- The oldest of the newest checkpoints, and how far a step of pruning goes towards it; nothing while there are fewer.
-- Where rows are sent to a topic, of those that were: what is sent is counted by the batch, and the newest is named.
SELECT b.seq, (SELECT max(s.seq) FROM (
    SELECT n.seq FROM tidemark.batches n JOIN tidemark.regions r USING (region)
    WHERE n.region = %(region)s AND n.state = 'published' AND n.seq > r.oldest_seq AND n.seq <= b.seq
    ORDER BY n.seq LIMIT %(step)s) s)
FROM tidemark.batches b JOIN tidemark.regions g USING (region)
WHERE b.region = %(region)s AND b.state = 'published'
  AND (coalesce(g.fingerprint->>'output.topic', g.fingerprint->>'dead_letters.topic') IS NULL
       OR b.seq <= coalesce(g.sent_seq, 0))
ORDER BY b.seq DESC OFFSET %(retain)s - 1 LIMIT 1
