-- The spans that the dead letters of a published replay lie in.
SELECT topic, partition, min("offset"), upper(int8range(min("offset"), max("offset"), '[]'))
FROM tidemark.dead_letters WHERE region = %(region)s AND replayed_seq = %(seq)s
GROUP BY topic, partition ORDER BY topic, partition
