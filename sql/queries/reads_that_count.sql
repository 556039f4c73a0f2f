-- The reads whose dead letters count.
SELECT c.member, s.attempt, s.topic, s.partition
FROM tidemark.spans s JOIN tidemark.contributions c USING (contribution)
WHERE s.region = %(region)s AND s.seq = %(seq)s
