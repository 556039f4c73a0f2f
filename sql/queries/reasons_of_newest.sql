-- How many of the newest dead letters have each reason, the commonest first; a `most` of null is all reasons.
SELECT n.reason, count(*), max(n.seq)
FROM (SELECT reason, seq FROM tidemark.dead_letters WHERE region = %(region)s AND replayed_seq IS NULL
      ORDER BY seq DESC LIMIT %(limit)s) n
GROUP BY n.reason ORDER BY 2 DESC, 1 LIMIT %(most)s
