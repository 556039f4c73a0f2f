-- Records as their dead letters keep them: those that a replay has chosen, or those that became its rows.
SELECT topic, partition, "offset", timestamp_ms, key, value, headers, hash, whole_bytes FROM tidemark.dead_letters
WHERE region = %(region)s AND topic = %(topic)s AND partition = %(partition)s
  AND "offset" >= %(start)s AND "offset" < %(end)s
  AND CASE WHEN %(is_proof)s THEN replayed_seq = %(seq)s ELSE chosen_seq = %(seq)s AND replayed_seq IS NULL END
ORDER BY "offset"
