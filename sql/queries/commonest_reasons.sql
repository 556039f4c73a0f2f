-- Why records of a batch became dead letters: count and first record of the commonest reasons.
SELECT CASE WHEN refused_rows IS NULL THEN reason ELSE reason || ' (' || detail || ')' END,
       count(*), (array_agg(topic || '[' || partition || ']@' || "offset" ORDER BY topic, partition, "offset"))[1]
FROM tidemark.dead_letters WHERE region = %(region)s AND seq = %(seq)s
GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3
