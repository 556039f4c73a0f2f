-- The staged rows that count, over all members.
SELECT c.member, a.attempt FROM tidemark.contributions c, unnest(c.attempts) AS a (attempt)
WHERE c.region = %(region)s AND c.seq = %(seq)s
